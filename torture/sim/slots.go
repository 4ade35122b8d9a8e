package sim

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfastlock/holdfast"
	"github.com/holdfastlock/holdfast/driver"
	"github.com/holdfastlock/holdfast/once"
	"github.com/holdfastlock/holdfast/torture/history"
)

// job is what is run once per slot.
const job = "job"

// slot is what happened to one slot of the job.
type slot struct {
	attempt int  // of the last run that began
	done    int  // runs that were done without error, as their callers were told
	lost    bool // it had its last attempt
}

var errWork = errors.New("it failed")

// runSlot runs the slot of now, or one of before.
func (c *client) runSlot() {
	p := c.process
	w := p.world
	text := fmt.Sprint(int(time.Since(w.start)/(20*time.Second)) - c.random.IntN(2))
	takes, fails, stubborn := c.upTo(25*time.Second), c.chance(25), c.chance(50)
	var opts []once.Option
	switch c.random.IntN(4) {
	case 0:
		opts = append(opts, once.StandBy(20*time.Second), once.RetryFailed())
	case 1:
		opts = append(opts, once.StandBy(30*time.Second))
	case 2:
		opts = append(opts, once.MaxAttempts(1+c.random.IntN(3)))
	}
	ctx, cancel := c.context()
	defer cancel()
	event := history.Event{Process: p.name, Client: c.number, Op: p.nextOp(), Do: history.RunSlot, Name: job, Slot: text}
	w.call(event)
	result, err := once.Run(ctx, p.locker, job, once.Slot(text), func(ctx context.Context, a once.Attempt) error {
		defer w.began(p, ctx, a)()
		defer p.gate() // a process that is stopped does not go on, even to give up
		if stubborn {  // it goes on when its context has ended: a zombie
			time.Sleep(takes)
		} else {
			select {
			case <-time.After(takes):
			case <-ctx.Done():
				return fmt.Errorf("%w: %w", once.ErrNotDone, ctx.Err())
			}
		}
		if fails {
			return errWork
		}
		return nil
	}, opts...)
	p.gate()
	if p.isDead() {
		return
	}
	w.ran(event, result, err)
}

// slotOf returns what is known of a slot. The caller holds the mutex.
func (w *world) slotOf(text string) *slot {
	s := w.slots[text]
	if s == nil {
		s = &slot{}
		w.slots[text] = s
	}
	return s
}

// began notes a run, which goes on until the function that is returned is called.
func (w *world) began(p *process, ctx context.Context, a once.Attempt) (ended func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.slotOf(a.Slot)
	fence := a.Lease.Fence()
	w.active[fence] = true
	alive := ctx.Err() == nil && p.runs() && a.Lease.Valid(0)
	switch {
	case w.lossy: // what is known of slots gets lost, too
	case !alive: // it was told too late that it has begun, and begins as a zombie
	case w.othersRun(a.Lease):
		w.broken("slot", "two runs of %s are trusted, one of slot %s by %s", job, a.Slot, p.name)
	case fence <= w.runFence:
		w.broken("slot", "slot %s: fence %d after %d", a.Slot, fence, w.runFence)
	case a.Number <= s.attempt:
		w.broken("slot", "slot %s: attempt %d after %d", a.Slot, a.Number, s.attempt)
	case s.done > 0:
		w.broken("slot", "slot %s runs again after it was done", a.Slot)
	case s.lost:
		w.broken("slot", "slot %s runs after it was lost", a.Slot)
	}
	w.runFence, s.attempt = max(w.runFence, fence), max(s.attempt, a.Number)
	w.tenures[job] = append(w.tenures[job], &tenure{process: p, lease: a.Lease, ttl: ttl})
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.active, fence)
	}
}

// othersRun says whether another run is trusted. The caller holds the mutex.
func (w *world) othersRun(lease *holdfast.Lease) bool {
	now := time.Now()
	for _, t := range w.tenures[job] {
		if t.lease != lease && t.trusted(now) {
			return true
		}
	}
	return false
}

// ran notes what a call has come to.
func (w *world) ran(e history.Event, result once.Result, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.slotOf(e.Slot)
	e.Kind, e.Outcome, e.Fence = history.Return, history.Skipped, result.Run.Fence
	switch {
	case result.Outcome == once.Ran:
		e.Outcome = history.OK
		if err == nil {
			s.done++
		}
	case result.Outcome == once.Lost:
		s.lost = true
	case result.Outcome == 0 || err != nil:
		e.Outcome = outcome(err)
	}
	if err != nil {
		e.Note = err.Error()
	}
	w.note(e)
	switch {
	case w.lossy:
	case s.done > 1:
		w.broken("slot", "slot %s was done %d times", e.Slot, s.done)
	case e.Outcome == history.Failed:
		w.broken("error", "run of slot %s by %s: undocumented error: %v", e.Slot, e.Process, err)
	case (result.Outcome == once.Done || result.Outcome == once.StoodBy) && result.Run.Phase != driver.Done:
		w.broken("slot", "slot %s: %v, but its run is %v", e.Slot, result.Outcome, result.Run.Phase)
	}
}
