package check

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/holdfastlock/holdfast/torture/history"
)

// slotKey names a slot of a job.
type slotKey struct{ job, slot string }

// slots demands that a slot is done once: its attempts have ascending numbers,
// each is asked for before a later one begins, and only the last is marked done.
// The exception is a slot whose record a server has lost. An attempt may begin
// to work late, when it was frozen, so its number says which came first.
func (c *checker) slots() {
	attempts := map[slotKey][]*lease{}
	for _, l := range c.record.leases {
		if l.run == nil {
			continue
		}
		id := slotKey{l.name, l.slot}
		attempts[id] = append(attempts[id], l)
		c.report.Attempts++
		if l.run.ok() {
			c.report.SlotsDone++
		}
	}
	for id, all := range attempts {
		slices.SortStableFunc(all, func(a, b *lease) int { return cmp.Compare(a.attempt, b.attempt) })
		for i := 1; i < len(all); i++ {
			c.nextAttempt(id, all[i-1], all[i])
		}
	}
	for _, op := range c.record.operations {
		if op.call.Do == history.RunSlot && op.ok() && c.record.held[key{op.call.Process, op.call.Op}] == nil {
			c.violation(Malformed, op.call.Name, op.call.At, op.answer.At, "a slot was done by a run that never began", op.call.Process)
		}
	}
}

// nextAttempt judges two attempts that follow one another by their numbers.
func (c *checker) nextAttempt(id slotKey, earlier, later *lease) {
	first := fmt.Sprintf("attempt %d of slot %s by %s", earlier.attempt, id.slot, earlier.process)
	second := fmt.Sprintf("attempt %d by %s", later.attempt, later.process)
	var text string
	switch {
	case earlier.run.ok():
		text = first + " was marked done, and is not the last: " + second + " began"
		if later.run.ok() {
			text += " and was marked done too"
		}
	case later.attempt == earlier.attempt, later.granted < earlier.called:
		text = first + " does not come before " + second
	default:
		return
	}
	from := min(earlier.called, later.called)
	until := max(earlier.run.ended(c.record.end), later.run.ended(c.record.end))
	if loss := c.record.lossBetween(from, until); loss != nil {
		c.loss(loss).SlotsAgain++
		return
	}
	c.violation(Slot, id.job, from, until, text, earlier.process, later.process)
}
