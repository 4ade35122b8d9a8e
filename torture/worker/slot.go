package worker

import (
	"context"
	"strconv"
	"time"

	"github.com/holdfastlock/holdfast/torture/history"
)

// runSlot runs the slot of a job that is due, unless another has.
func (c *client) runSlot() {
	runner, ok := c.locker.(SlotRunner)
	if !ok || len(c.Names.Jobs) == 0 {
		return
	}
	run := Run{Job: c.oneOf(c.Names.Jobs)}
	if c.oneIn(2) {
		run.StandBy = c.upTo(2 * c.TTL)
	}
	if run.Job == c.Names.Jobs[0] {
		run.Slot = strconv.FormatInt(history.Now()/int64(slotEvery), 10)
	}
	c.observe(history.Event{Do: history.RunSlot, Name: run.Job, Slot: run.Slot}, func(e *history.Event) (err error) {
		run.Extended = c.extended(e.Op)
		run.Work = func(slot string, attempt int, lease Lease) { c.workOn(*e, slot, attempt, lease) }
		var skipped bool
		if e.Slot, skipped, err = runner.RunSlot(context.Background(), run); skipped {
			e.Outcome = history.Skipped
		}
		return err
	})
}

// slotEvery is how often a slot of the first job is due.
const slotEvery = 700 * time.Millisecond

// workOn does the work of a slot under its lease, in the run that is e.
func (c *client) workOn(e history.Event, slot string, attempt int, lease Lease) {
	e.Kind, e.Slot, e.Attempt = history.Began, slot, attempt
	e.Fence, e.Deadline = lease.Fence(), history.Moment(lease.Deadline())
	c.record.add(e)
	t := c.keep(lease, e)
	c.hold(t)
	t.end()
	e.Kind, e.Deadline = history.Ended, 0
	c.record.add(e)
}
