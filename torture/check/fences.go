package check

import (
	"cmp"
	"fmt"
	"slices"
)

// fences demands that every grant of a name has a fence of its own, larger than
// that of every grant that was known before the store was asked for it. Only if a
// server lost its data, and a server's clock had been set back, may they not grow. A
// lease that was asked for without a fence has none; one that was passed on has its
// fence from the grant that was passed on.
func (c *checker) fences() {
	for name, leases := range c.record.leasesByName() {
		leases = slices.DeleteFunc(leases, func(l *lease) bool { return l.unfenced })
		c.unique(name, leases)
		c.growing(name, leases)
	}
}

func (c *checker) unique(name string, leases []*lease) {
	owners := map[int64]*lease{}
	for _, l := range leases {
		switch other := owners[l.fence]; {
		case l.fence <= 0:
			c.violation(Fence, name, l.called, l.granted, fmt.Sprintf("%s was granted the name without a fence", l.process), l.process)
		case other != nil && other.granted < l.claimed:
			// growing reports it: the second was asked for later.
		case other != nil && c.fenceExcuse(other, l) == nil:
			c.violation(Fence, name, other.called, l.granted,
				fmt.Sprintf("%s and %s were both given fence %d", other.process, l.process, l.fence), other.process, l.process)
		}
		owners[l.fence] = l
	}
}

// growing goes through the calls in their order and keeps the largest fence
// that was returned before.
func (c *checker) growing(name string, leases []*lease) {
	calls := slices.SortedFunc(slices.Values(leases), func(a, b *lease) int { return cmp.Compare(a.claimed, b.claimed) })
	var largest *lease
	returned := 0
	for _, l := range calls {
		for ; leases[returned].granted < l.claimed; returned++ {
			if largest == nil || leases[returned].fence > largest.fence {
				largest = leases[returned]
			}
		}
		if largest == nil || l.fence > largest.fence || l.fence <= 0 {
			continue
		}
		if loss := c.fenceExcuse(largest, l); loss != nil {
			c.loss(loss).FencesBack++
			largest = nil // the numbers begin anew, with those that return from here on
			continue
		}
		c.violation(Fence, name, largest.called, l.granted, fmt.Sprintf(
			"%s was given fence %d after %s had been given %d", l.process, l.fence, largest.process, largest.fence),
			largest.process, l.process)
	}
}

// fenceExcuse returns the loss that lets the second fence be no larger than the
// first, or nil.
func (c *checker) fenceExcuse(first, second *lease) *fault {
	if !c.record.clockWasBack(second.granted) {
		return nil
	}
	loss := c.record.lossAmong(first, second)
	if loss != nil {
		c.fencesBack[second.name] = true
	}
	return loss
}
