package quorum

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfastlock/holdfast/driver"
)

// vote is one attempt to get a majority. What it decides is told to the nodes'
// goroutines by closing a channel; the tally is the caller's own.
type vote struct {
	store  *Store
	tenure *tenure
	req    driver.AcquireRequest
	after  *tenure // the one before; nil: none
	began  time.Time
	before grant // what the token was granted before

	chosen chan struct{} // closed when choice is known, or that there is none; nil without a fence
	choice choice
	ended  chan struct{} // closed when won is known
	won    bool

	replies chan reply
	tally   tally
}

// reply is what came of one request to a node.
type reply struct {
	node   int
	result driver.AcquireResult
	same   bool // the grant is the one that the node gave before
	raised bool // it is about the fence, and answer is what the node found
	answer driver.Answer
	err    error
}

func (r reply) from() (int, bool) { return r.node, failed(r.err) }

func newVote(s *Store, t *tenure, req driver.AcquireRequest) *vote {
	v := &vote{
		store: s, tenure: t, req: req, after: s.before(t), began: time.Now(),
		ended:   make(chan struct{}),
		replies: make(chan reply, len(s.nodes)),
		tally:   tally{nodes: len(s.nodes), majority: s.majority},
	}
	if !req.NoFence {
		v.before, v.chosen = t.granted(), make(chan struct{})
		v.replies = make(chan reply, 2*len(s.nodes)) // a node may have to be told
	}
	return v
}

// begin asks the nodes.
func (v *vote) begin() *round {
	first := v.store.all()
	if v.req.NoFence {
		first = v.store.firstFor(v.req.Name)
	}
	return v.store.begin(v, first, v.store.all()&^first)
}

// at sees one node through the vote. It ends when nothing of the vote is left at
// the node but what was won.
func (v *vote) at(i int) {
	defer v.store.left(v.tenure, 1)
	if v.atNode(i) {
		v.store.settle(v.tenure, i)
	}
}

// atNode says whether something is left to settle.
func (v *vote) atNode(i int) (unsettled bool) {
	v.after.waitFreed(i)
	p := &v.tenure.parts[i]
	p.mu.Lock()
	defer p.mu.Unlock()
	r := v.acquire(i, p)
	v.noteLate(i)
	v.replies <- r
	if r.result.Granted && v.chosen != nil {
		<-v.chosen
		if v.choice.concerns(i, v.req.Last(r.result.Fence)) {
			v.replies <- v.raise(i)
		}
	}
	if !p.leftover() {
		return false
	}
	<-v.ended
	if v.won || v.tenure.isHeld() {
		return false
	}
	if r.result.Granted {
		// No tombstone: the token may be asked for again.
		_, _ = v.store.free(v.tenure, i, 0, v.limit())
	}
	return p.leftover()
}

// noteLate notes that a node has answered, unless that was too late.
func (v *vote) noteLate(i int) {
	select {
	case <-v.chosen:
	default:
		v.store.late.met(i)
	}
}

func (v *vote) limit() time.Duration { return v.store.limit(v.req.TTL) }

func (v *vote) acquire(i int, p *part) reply {
	if time.Now().Before(p.barred) {
		return reply{node: i, err: errBarred}
	}
	v.tenure.ask(i) // before looking whether it was released: a release frees those that were asked
	if v.idle() {   // while another request was under way, or before this one began
		return reply{node: i, err: errBarred}
	}
	p.sent++
	began := time.Now()
	result, err := v.store.nodes[i].Acquire(v.store.limits.context(v.limit()), v.req)
	v.store.heardFrom(i, began, err)
	p.unheard = p.unheard || driver.Unknown(err)
	if !failed(err) {
		p.granted = result.Granted
	}
	r := reply{node: i, result: result, err: err}
	if result.Granted && !v.req.NoFence {
		last := v.req.Last(result.Fence)
		r.same = last == p.number || last == v.before.last && p.number < last
		p.number = last
	}
	return r
}

// idle says whether the vote was lost, or what it has won was released already.
func (v *vote) idle() bool {
	select {
	case <-v.ended:
		return !v.won || !v.tenure.isHeld()
	default:
		return false
	}
}

var errBarred = errors.New("an earlier request of the token is still under way there")

func (v *vote) raise(i int) reply {
	raiser := v.store.nodes[i].(driver.FenceRaiser)
	req := driver.RaiseRequest{Name: v.req.Name, Token: v.req.Token, Last: v.choice.last}
	answer, err := raiser.RaiseFence(v.store.limits.context(v.limit()), req)
	return reply{node: i, raised: true, answer: answer, err: err}
}

// next takes in one more reply.
func (v *vote) next(ctx context.Context) error {
	select {
	case r := <-v.replies:
		v.tally.add(r, v.req)
		return nil
	case <-ctx.Done():
		return driver.NoAnswer(ctx, ctx.Err())
	}
}

// elect counts votes until there is a majority, or there can be none.
func (v *vote) elect(ctx context.Context, r *round) (err error) {
	broken := collect(ctx, r, v.replies, func(r reply) (decided bool) {
		v.tally.add(r, v.req)
		decided, err = v.tally.decided()
		return decided
	})
	if broken == nil && err == nil {
		v.store.pace.voted(time.Since(v.began))
	}
	return cmp.Or(broken, err)
}

// number agrees on the fencing token of a vote that has a majority.
func (v *vote) number(ctx context.Context) (grant, error) {
	if v.req.NoFence {
		return grant{since: v.began}, v.inTime()
	}
	if v.before.last > 0 && v.tally.same >= v.store.majority { // held since then
		return v.before, v.inTime()
	}
	if err := v.wait(ctx); err != nil {
		return grant{}, err
	}
	v.choose(v.tally.choose())
	for !v.tally.confirmed() {
		if err := v.next(ctx); err != nil {
			return grant{}, err
		}
		if v.tally.unconfirmable() {
			return grant{}, v.tally.errs.unreachable(v.tally.nodes, v.tally.raised, "have confirmed the fencing token")
		}
	}
	return grant{v.choice.last, v.began}, v.inTime()
}

// wait waits for the nodes that have not answered yet, for as long as the majority
// took: with the numbers of all there is nothing to raise, which would take as long.
// It does not wait for a node that was waited for in vain the last time.
func (v *vote) wait(ctx context.Context) error {
	pending := v.tally.pending() &^ v.store.late.nodes()
	if pending == 0 {
		return nil
	}
	timer := time.NewTimer(time.Since(v.began))
	defer timer.Stop()
	for pending&v.tally.pending() != 0 {
		select {
		case r := <-v.replies:
			v.tally.add(r, v.req)
		case <-timer.C:
			v.store.late.missed(pending & v.tally.pending())
			return nil
		case <-ctx.Done():
			return driver.NoAnswer(ctx, ctx.Err())
		}
	}
	return nil
}

// choose tells the nodes' goroutines the number.
func (v *vote) choose(c choice) {
	v.choice = c
	close(v.chosen)
}

// inTime returns an error if the majority came too late for the lease to be of
// use.
func (v *vote) inTime() error {
	took := time.Since(v.began)
	if took < trusted(v.req.TTL) {
		return nil
	}
	return &driver.Error{Kind: driver.ErrUnreachable, Err: fmt.Errorf("the majority came after %v, too late for a TTL of %v", took, v.req.TTL)}
}

// end tells the nodes' goroutines what came of it.
func (v *vote) end(won bool) {
	v.won = won
	if v.chosen != nil && v.choice.known == 0 {
		close(v.chosen)
	}
	close(v.ended)
}

// refusal is the answer of a vote that was not won, and how often it is to be
// repeated: another has won it, or may have with nodes that do not answer, or
// nobody can have.
func (v *vote) refusal() (result driver.AcquireResult, repeats int) {
	result.State.Name = v.req.Name
	holder, votes := most(v.tally.states)
	if votes > 0 {
		result.State = v.store.heldBy(v.req.Name, holder, v.tally.states)
	}
	switch {
	case votes >= v.store.majority:
		return result, 0
	case votes+v.tally.errs.count >= v.store.majority:
		return result, whenUnsure
	default:
		return result, whenSplit
	}
}
