package check

import (
	"fmt"
	"slices"
	"time"
)

// exclusion looks for two leases of one name that were trusted at the same
// time: from the return of the acquire until the holder began to release, was
// told of the loss, died, or the last deadline that it knew of. Two leases are
// a documented loss if a server lost its data after the older was asked for and
// before both were granted; but only until the TTL of one is over, since its
// next renewal must be refused.
func (c *checker) exclusion() {
	active := map[string][]*lease{}
	for _, l := range c.record.leases {
		others := slices.DeleteFunc(active[l.name], func(o *lease) bool { return o.trustedUntil() <= l.granted })
		if l.trustedUntil() > l.granted {
			for _, other := range others {
				c.overlap(other, l)
			}
			others = append(others, l)
		}
		active[l.name] = others
	}
}

// overlap judges two leases that were trusted at once, of which the second's
// grant was heard of later.
func (c *checker) overlap(first, second *lease) {
	end := min(first.trustedUntil(), second.trustedUntil())
	length := time.Duration(end - second.granted)
	if c.rules.Fenceless {
		if length -= c.record.frozen(second.granted, end, first.process, second.process); length <= 0 {
			return
		}
	}
	text := fmt.Sprintf("%s and %s both trusted their leases for %v",
		first.who(), second.who(), length.Round(time.Microsecond))
	loss := c.record.lossAmong(first, second)
	switch {
	case loss == nil:
	case end > max(second.granted, loss.heal)+int64(c.rules.TTL):
		text += fmt.Sprintf(": longer than its TTL after %s, so it was extended although another held it", loss.kind)
	default:
		c.twoHolders(loss, length)
		return
	}
	c.violation(Exclusion, first.name, min(first.asked, second.asked), end, text, first.process, second.process)
	c.report.Violations[len(c.report.Violations)-1].Overlap = length
}

func (c *checker) twoHolders(loss *fault, length time.Duration) {
	row := c.loss(loss)
	row.Overlaps++
	row.Longest = max(row.Longest, length)
	if !loss.twoHolders {
		loss.twoHolders = true
		row.TwoHolders++
	}
}
