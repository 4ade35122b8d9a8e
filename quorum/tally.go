package quorum

import (
	"errors"
	"slices"

	"github.com/holdfastlock/holdfast/driver"
)

// tally counts the replies of one vote.
type tally struct {
	nodes, majority int

	heard   nodeSet
	granted nodeSet
	numbers []int64 // the last fencing token of each grant
	same    int     // how many grants are those of before
	states  []driver.State
	left    int // how many nodes have a tombstone for the token
	errs    failures

	last   int64 // what was chosen; 0: nothing yet
	raised int   // how many nodes have it, or more, for this token
}

func (t *tally) add(r reply, req driver.AcquireRequest) {
	t.heard = t.heard.with(r.node)
	switch {
	case r.raised && r.err == nil && r.answer == driver.Mine:
		t.raised++
	case r.raised && r.err == nil:
		t.errs.note(r.node, errors.New("the name is not held there any more"))
	case r.err == nil && r.result.Granted:
		t.grant(r, req.Last(r.result.Fence))
	case r.err == nil:
		t.states = append(t.states, r.result.State)
	case errors.Is(r.err, driver.ErrWithdrawn):
		t.left++
	default:
		t.errs.note(r.node, r.err)
	}
}

func (t *tally) grant(r reply, last int64) {
	t.granted = t.granted.with(r.node)
	t.numbers = append(t.numbers, last)
	if r.same {
		t.same++
	}
	if t.last > 0 && last >= t.last {
		t.raised++
	}
}

// decided says whether there is a majority, or can be none; what the error says
// is then the answer. Without an error and a majority the answer is a refusal.
func (t *tally) decided() (bool, error) {
	granted := len(t.numbers)
	refused := len(t.states) + t.left
	pending := t.nodes - granted - refused - t.errs.count
	switch {
	case granted >= t.majority:
		return true, nil
	case granted+pending >= t.majority:
		return false, nil
	case t.left >= t.majority:
		return true, driver.ErrWithdrawn
	case granted+refused >= t.majority:
		return true, nil
	case t.errs.count >= t.majority || pending == 0:
		return true, t.errs.verdict(t.nodes, granted+refused, t.majority)
	default:
		return false, nil
	}
}

func (t *tally) won() bool { return len(t.numbers) >= t.majority }

// pending returns the nodes that have not answered.
func (t *tally) pending() nodeSet { return nodeSet(1)<<t.nodes - 1 - t.heard }

// choice is a fencing token, and which nodes must be told of it.
type choice struct {
	last int64
	// known are the nodes whose numbers it was chosen from: those need be told only
	// if too few of them have the number or a larger one.
	known nodeSet
	tell  bool
}

// concerns says whether a node that gave that number must be told. One that was
// not known is told in any case, for those who look at the numbers later.
func (c choice) concerns(node int, number int64) bool {
	return number < c.last && (c.tell || !c.known.has(node))
}

// choose returns the largest number of a majority: of that one whose largest is
// the smallest, so that as many nodes as can be have it, or a larger one, already.
// If all have granted that is a majority.
func (t *tally) choose() choice {
	sorted := slices.Sorted(slices.Values(t.numbers))
	t.last = sorted[t.majority-1]
	for _, number := range sorted {
		if number >= t.last {
			t.raised++
		}
	}
	return choice{last: t.last, known: t.granted, tell: !t.confirmed()}
}

// confirmed says whether a majority of nodes has the fencing token: whoever is
// granted the name later finds it at one of them.
func (t *tally) confirmed() bool { return t.raised >= t.majority }

// unconfirmable says that too many nodes can't confirm it.
func (t *tally) unconfirmable() bool {
	return len(t.states)+t.left+t.errs.count > t.nodes-t.majority
}
