package check

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/holdfastlock/holdfast/torture/history"
)

// progress looks for names that nobody holds although somebody waits for them:
// an acquire is under way in a client that is not disturbed, and no lease is
// trusted. While no fault disturbs the servers, such times may add up to no more
// than Rules.Recovery, counted from the last such fault to the next grant.
func (c *checker) progress() {
	for name, s := range c.situations() {
		slices.SortStableFunc(s.changes, func(a, b change) int { return cmp.Compare(a.at, b.at) })
		c.stalls(name, s)
	}
}

// situation is what matters for the progress of one name, and how it changes.
type situation struct {
	wanted, held, disturbed int
	changes                 []change
}

// change makes one of the counts of a situation larger or smaller by one.
type change struct {
	at    int64
	count *int
	by    int
}

// between counts something up at from and down at to.
func (s *situation) between(from, to int64, count *int) {
	if from <= to {
		s.changes = append(s.changes, change{from, count, 1}, change{to, count, -1})
	}
}

// situations has one situation for each name that was ever asked for.
func (c *checker) situations() map[string]*situation {
	byName := map[string]*situation{}
	for _, op := range c.record.operations {
		if op.call.Do != history.Acquire {
			continue
		}
		s := byName[op.call.Name]
		if s == nil {
			s = &situation{}
			byName[op.call.Name] = s
		}
		c.want(s, op)
	}
	for _, l := range c.record.leases {
		if s := byName[l.name]; s != nil {
			s.between(l.granted, l.trustedUntil(), &s.held)
		}
	}
	for _, f := range c.record.faultsOf[""] {
		for _, s := range byName {
			s.between(f.at, f.heal, &s.disturbed)
		}
	}
	return byName
}

// want counts an acquire while its client is undisturbed. A fault of its client
// begins the time without a holder anew: the name may be the client's at the
// server, and nobody else's until its TTL is over.
func (c *checker) want(s *situation, op *operation) {
	from, to := op.call.At, op.ended(c.record.end)
	if died, ok := c.record.died[op.call.Process]; ok {
		to = min(to, died)
	}
	for _, f := range c.record.faultsOf[worker(op.call.Process)] {
		if f.covers(from, to) {
			s.between(from, f.at, &s.wanted)
			s.between(f.at, f.at, &s.disturbed)
			s.between(f.heal, f.heal, &s.disturbed)
			from = f.heal
		}
	}
	s.between(from, to, &s.wanted)
}

// stalls goes through the changes in the order of time, all of one moment
// together, and adds up the times in which somebody waits for nobody.
func (c *checker) stalls(name string, s *situation) {
	st := stall{name: name}
	last := int64(0)
	waits := false
	for i, ch := range s.changes {
		if waits {
			st.add(last, ch.at)
		}
		last = ch.at
		*ch.count += ch.by
		waits = s.wanted > 0 && s.held == 0 && s.disturbed == 0
		together := i+1 < len(s.changes) && s.changes[i+1].at == ch.at
		if s.disturbed > 0 || s.held > 0 && !together {
			c.over(&st, s.held > 0)
		}
	}
	c.over(&st, false)
}

// stall is a time in which a name was wanted and not held; when nobody wanted
// it, the time did not count.
type stall struct {
	name     string
	from, to int64
	length   time.Duration
}

func (s *stall) add(from, to int64) {
	if s.length == 0 {
		s.from = from
	}
	s.to = to
	s.length += time.Duration(to - from)
}

// over judges a stall that is over, by a grant or a disturbance, and begins anew.
func (c *checker) over(s *stall, granted bool) {
	if granted && s.length > 0 {
		c.report.Recoveries++
		c.report.Recovery = max(c.report.Recovery, s.length)
	}
	if s.length > c.rules.Recovery {
		c.violation(Progress, s.name, s.from, s.to, fmt.Sprintf(
			"nobody was granted the name for %v, although it was wanted and no server was disturbed",
			s.length.Round(time.Millisecond)), c.record.waiting(s.name, s.from, s.to)...)
	}
	*s = stall{name: s.name}
}

// waiting returns the processes that asked for the name between from and to.
func (r *record) waiting(name string, from, to int64) []string {
	var processes []string
	for _, op := range r.operations {
		if op.call.Do == history.Acquire && op.call.Name == name && op.call.At <= to && op.ended(forever) >= from {
			processes = append(processes, op.call.Process)
		}
	}
	return processes
}
