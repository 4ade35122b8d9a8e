package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"

	"github.com/holdfastlock/holdfast"
	"github.com/holdfastlock/holdfast/internal/supervise"
	"github.com/holdfastlock/holdfast/once"
)

// slotRun is a run once per slot, as far as it has come.
type slotRun struct {
	*run
	argv    []string
	command supervise.Command
	signals <-chan os.Signal
	session *session

	started chan struct{}   // closed when the command is about to be started
	lease   *holdfast.Lease // of the command; nil before
	outcome supervise.Outcome
	failure error // of a command that could not be started
}

// runSlot runs the command unless its slot has run, or is running elsewhere.
func (r *run) runSlot(ctx context.Context, argv []string, command supervise.Command, signals <-chan os.Signal) error {
	sr := &slotRun{run: r, argv: argv, command: command, signals: signals, started: make(chan struct{})}
	var result once.Result
	err := orSignal(ctx, signals, sr.started, func(ctx context.Context) (err error) {
		if sr.session, err = r.openToRun(ctx); err != nil {
			return err
		}
		result, err = once.Run(ctx, sr.session.locker, r.name, r.flags.slot.schedule, sr.attempt,
			r.flags.slot.options(r.flags.wait, r.flags.purpose)...)
		return err
	})
	if sr.session != nil {
		defer sr.session.close(ctx)
	}
	switch {
	case sr.lease != nil:
		return sr.finishSlot(ctx, result, err)
	case err != nil:
		return r.notAcquired(err)
	case result.Outcome == once.Lost:
		r.warn(fmt.Sprintf("slot %s of %q is lost: its last attempt (%d, by %s) crashed", result.Slot, r.name, result.Run.Attempt, clean(result.Run.Owner())))
	}
	return nil
}

// attempt runs the command under the lease of its slot. Whatever its exit code,
// the slot is done then, unless the command was kept from starting or was
// stopped because the lease could not be kept.
func (sr *slotRun) attempt(_ context.Context, attempt once.Attempt) error {
	sr.lease = attempt.Lease
	close(sr.started)
	sr.outcome, sr.failure = sr.underLease(sr.session, attempt.Lease, sr.command, sr.signals,
		slotVariable+"="+attempt.Slot, attemptVariable+"="+strconv.Itoa(attempt.Number))
	switch {
	case sr.outcome.NotStarted, sr.outcome.Lost, errors.Is(sr.failure, supervise.ErrSystem):
		return once.ErrNotDone
	case sr.failure != nil:
		return notStarted(sr.argv, sr.failure)
	case sr.outcome.Code != 0:
		return &exit{code: sr.outcome.Code, text: fmt.Sprintf("exit code %d", sr.outcome.Code)}
	}
	return nil
}

// finishSlot says how the run of a slot ended; its lease is released.
func (sr *slotRun) finishSlot(ctx context.Context, result once.Result, err error) error {
	failure := sr.failure
	if failure != nil {
		failure = notStarted(sr.argv, failure)
	}
	end := sr.finish(ctx, sr.lease, sr.outcome, failure)
	switch {
	case errors.Is(err, holdfast.ErrLost) && !endsWith(end, codeLost):
		return exitWith(codeLost, "slot %s of %q ran, but is not marked done: %s", result.Slot, sr.name, oneLine(err))
	case errors.Is(err, holdfast.ErrUnreachable):
		sr.warn(fmt.Sprintf("slot %s of %q ran, but could not be marked done, so it may run again: %s", result.Slot, sr.name, oneLine(err)))
	}
	return end
}

// endsWith says whether an error ends the command with this code.
func endsWith(err error, code int) bool {
	var end *exit
	return errors.As(err, &end) && end.code == code
}
