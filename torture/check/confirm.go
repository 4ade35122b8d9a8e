package check

import (
	"cmp"
	"fmt"
	"slices"
)

// confirmations looks for leases that the store is said to have confirmed, by an
// extension, although they were over: the deadline had passed, or another that was
// granted the name later held it from the call to the answer. (Of a lease that
// may have been lost, the model does not know that. Of two without fences nobody
// knows which was granted later; but then they overlap, or one had been lost.)
func (c *checker) confirmations() {
	for name, leases := range c.record.leasesByName() {
		if c.fencesBack[name] {
			continue // which was granted later is not known
		}
		confirmed := confirmationsOf(leases)
		next, active := 0, []*lease(nil)
		for _, e := range confirmed {
			for ; next < len(leases) && leases[next].granted <= e.op.call.At; next++ {
				active = append(active, leases[next])
			}
			active = slices.DeleteFunc(active, func(l *lease) bool { return l.trustedUntil() < e.op.call.At })
			c.confirmed(e, active)
		}
	}
}

// confirmation is an extension of a lease that was answered.
type confirmation struct {
	lease *lease
	op    *operation
}

// confirmationsOf returns those of some leases in the order of their calls.
func confirmationsOf(leases []*lease) (all []confirmation) {
	for _, l := range leases {
		for _, op := range l.extends {
			all = append(all, confirmation{l, op})
		}
	}
	slices.SortStableFunc(all, func(a, b confirmation) int { return cmp.Compare(a.op.call.At, b.op.call.At) })
	return all
}

// confirmed judges a confirmation among the leases that were trusted when it was
// called.
func (c *checker) confirmed(e confirmation, active []*lease) {
	from, to := e.op.call.At, e.op.answer.At
	if e.op.answer.Deadline <= from {
		c.violation(Confirm, e.lease.name, from, to, e.lease.who()+" was confirmed with a deadline that had passed", e.lease.process)
	}
	for _, other := range active {
		if other.fence <= e.lease.fence || other.trustedUntil() < to || c.record.mayBeBack(other.asked, to) {
			continue
		}
		text := fmt.Sprintf("%s was confirmed while %s held the name", e.lease.who(), other.who())
		c.violation(Confirm, e.lease.name, from, to, text, e.lease.process, other.process)
	}
}
