package once

import (
	"context"
	"errors"
	"time"

	"github.com/holdfastlock/holdfast"
	"github.com/holdfastlock/holdfast/driver"
)

// Outcome is what became of a call of Run.
type Outcome int

const (
	// Ran means that this call ran the function; its error is that of Run.
	Ran Outcome = iota + 1
	// Done means that the slot was done before.
	Done
	// Running means that another is running it, and that the call did not stand
	// by, or no longer.
	Running
	// StoodBy means that the call stood by and another did it.
	StoodBy
	// Late means that the start deadline was over.
	Late
	// Lost means that the slot has had its last attempt, and that crashed.
	Lost
)

// String returns the outcome in words.
func (o Outcome) String() string {
	switch o {
	case Ran:
		return "ran here"
	case Done:
		return "already done"
	case Running:
		return "running elsewhere"
	case StoodBy:
		return "stood by, another did it"
	case Late:
		return "too late to start"
	case Lost:
		return "lost by a crash of its last attempt"
	default:
		return "not run"
	}
}

// Result says what Run did.
type Result struct {
	// Outcome is 0 if the call failed before it came to one.
	Outcome Outcome
	// Slot is the text of the slot; empty if the call failed before it knew.
	Slot string
	// Starts is when the slot begins, by the store's clock; zero with Slot.
	Starts time.Time
	// Run is what the store last said of the slot's run: this call's as it was
	// begun, or the other's.
	Run driver.Run
}

// ErrNotDone is for the function that Run calls: an error that matches it says
// that the work was not done, and the slot is not marked done. The next that
// asks for it takes it over, as after a crash.
var ErrNotDone = errors.New("the work of the slot was not done")

// Attempt is what the function that Run calls may want to know.
type Attempt struct {
	Slot   string
	Starts time.Time
	// Number counts the attempts at this slot from 1.
	Number int
	// Lease is the lease on the job. Do not release it.
	Lease *holdfast.Lease
}

// Run calls fn if the slot that the schedule has now, by the store's clock, was
// not run by anybody: once, among all hosts that share the store. It holds a
// lock on the job's name meanwhile, so that slots of one job never run at the
// same time, kept alive however long fn takes. A call that is early waits for
// its slot to begin.
//
// The context given to fn ends, with a *holdfast.LostError as its cause, as soon
// as the lease can't be trusted, and when ctx ends. Once fn returns, the slot is
// done, whatever fn returned: with the code 0, or the error's ExitCode() int, or
// else 1; an error does not make others try again, unless they use RetryFailed.
// If fn panics or returns ErrNotDone, or the lock is lost, the slot is not done.
//
// A call that skips returns no error; see Outcome. The error is that of fn; or
// matches holdfast.ErrHeld if another slot or a plain lock has the name, or
// another still ran it when the time to stand by was over; or holdfast.ErrLost,
// joined to that of fn, if the run could not be marked done because the lock was
// lost; or holdfast.ErrUnreachable if the store did not answer, in which case,
// if the outcome is Ran, the slot may run again.
func Run(ctx context.Context, locker *holdfast.Locker, job string, schedule Schedule, fn func(ctx context.Context, attempt Attempt) error, opts ...Option) (Result, error) {
	c := &call{locker: locker, job: job}
	for _, opt := range opts {
		opt(&c.settings)
	}
	if err := c.settings.validate(schedule); err != nil {
		return Result{}, err
	}
	keeper, err := slotKeeper(locker)
	if err != nil {
		return Result{}, err
	}
	c.keeper = keeper
	if err := c.arrive(ctx, schedule); err != nil {
		return c.result, err
	}
	err = c.run(ctx, fn)
	return c.result, err
}

// Runs returns the last runs of a job, one for each slot, those begun last
// first; at most limit, and driver.MaxRuns.
func Runs(ctx context.Context, locker *holdfast.Locker, job string, limit int) (runs []driver.Run, err error) {
	keeper, err := slotKeeper(locker)
	if err != nil {
		return nil, err
	}
	err = locker.Persist(ctx, func(ctx context.Context) (err error) {
		runs, err = keeper.Runs(ctx, job, limit)
		return err
	})
	return runs, err
}

func slotKeeper(locker *holdfast.Locker) (driver.SlotKeeper, error) {
	keeper, ok := locker.Store().(driver.SlotKeeper)
	if !ok {
		return nil, &driver.Error{Kind: driver.ErrUnsupported, Err: errors.New("the store does not remember slots")}
	}
	return keeper, nil
}
