package report

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/holdfastlock/holdfast/torture/check"
	"github.com/holdfastlock/holdfast/torture/history"
)

// Timeline is the piece of a history that shows a violation: a row for each
// event, in the order of time but not to scale, and a lane for the faults, for
// each process concerned, and for a resource.
type Timeline struct {
	title string
	lanes []string
	rows  []row
}

// The lane of the faults is the first.
const faultLane = 0

// row is one event.
type row struct {
	at   int64
	lane int
	text string
	bad  bool // a fault, a loss, or a refusal
	// begins and ends name the lease, or the fault, that does so here.
	begins, ends opKey
	// after says of each lane how many leases are trusted after the event, and
	// hit whether the process, or in the first lane a server, is disturbed.
	after []int
	hit   []bool
}

// opKey names an operation; those of the nemesis are faults.
type opKey struct {
	process string
	op      int64
}

// mostRows is how many rows a timeline has at the most.
const mostRows = 60

// NewTimeline picks out of a history what belongs to a violation.
func NewTimeline(events []history.Event, v check.Violation) *Timeline {
	events = slices.Clone(events)
	slices.SortStableFunc(events, func(a, b history.Event) int { return cmp.Compare(a.At, b.At) })
	t := &Timeline{title: describe(v), lanes: append([]string{"faults"}, v.Processes...)}
	p := picker{
		timeline: t, violation: v,
		clients: map[string]bool{}, calls: map[opKey]history.Event{}, leases: map[opKey]*trust{},
	}
	p.suspects(events)
	p.relate(events)
	for _, e := range events {
		p.pick(e)
	}
	p.deadlines()
	slices.SortStableFunc(t.rows, func(a, b row) int { return cmp.Compare(a.at, b.at) })
	t.follow()
	t.clip(v.From, v.To)
	return t
}

// follow notes after each row who trusts a lease and who is disturbed.
func (t *Timeline) follow() {
	leases := make([]map[opKey]bool, len(t.lanes))
	faults := make([]map[opKey]bool, len(t.lanes))
	for i := range t.lanes {
		leases[i], faults[i] = map[opKey]bool{}, map[opKey]bool{}
	}
	for i := range t.rows {
		r := &t.rows[i]
		into := leases
		if r.begins.process == nemesis || r.ends.process == nemesis {
			into = faults
		}
		into[r.lane][r.begins] = true
		delete(into[r.lane], r.ends)
		for lane := range t.lanes {
			delete(into[lane], opKey{})
			r.after = append(r.after, len(leases[lane]))
			r.hit = append(r.hit, len(faults[lane]) > 0)
		}
	}
}

// clip leaves the rows between from and to; if they are too many, their first
// and last.
func (t *Timeline) clip(from, to int64) {
	t.rows = slices.DeleteFunc(t.rows, func(r row) bool { return r.at < from || r.at > to })
	more := len(t.rows) - mostRows
	if more <= 0 {
		return
	}
	half := mostRows / 2
	t.rows[half].text = fmt.Sprintf("… %d events left out", more+1)
	t.rows[half].lane, t.rows[half].bad = faultLane, false
	t.rows = slices.Delete(t.rows, half+1, half+1+more)
}

// twoHolders says whether after the row more than one lease is trusted.
func (r row) twoHolders() bool {
	sum := 0
	for _, n := range r.after {
		sum += n
	}
	return sum > 1
}

// since returns the time from the first row to the row, in milliseconds.
func (t *Timeline) since(r row) string {
	return fmt.Sprintf("+%.3f ms", float64(r.at-t.rows[0].at)/1e6)
}
