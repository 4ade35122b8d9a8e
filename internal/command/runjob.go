package command

import (
	"context"
	"errors"
	"os"
	"strconv"
	"time"

	"github.com/holdfastlock/holdfast"
	"github.com/holdfastlock/holdfast/internal/supervise"
)

// underLease runs the command, with more in its environment, and keeps the lease
// for --hold-min.
func (r *run) underLease(s *session, lease *holdfast.Lease, command supervise.Command, signals <-chan os.Signal, more ...string) (supervise.Outcome, error) {
	began := time.Now()
	defer r.warnOfLoss(lease)()
	outcome, err := supervise.Job{
		Command: command, Env: append(r.environment(s, lease), more...),
		Stdin: r.stdin, Stdout: r.stdout, Stderr: r.stderr,
		Signals: signals, Renewed: r.renewed, Rules: r.flags.rules(),
	}.Run(lease)
	if err != nil || outcome.NotStarted || outcome.Lost || outcome.Stopped {
		return outcome, err
	}
	select {
	case <-time.After(time.Until(began.Add(time.Duration(r.flags.holdMin)))):
	case <-lease.Context().Done():
	case <-signals:
	}
	return outcome, nil
}

// deadlineMoved is called when the lease was renewed. It may be called from any
// goroutine and does not block.
func (r *run) deadlineMoved(holdfast.Event) {
	select {
	case r.renewed <- struct{}{}:
	default: // the last one has not been looked at yet
	}
}

// warnOfLoss says at once when the lease is lost and the command is left
// running.
func (r *run) warnOfLoss(lease *holdfast.Lease) (stop func() bool) {
	if r.flags.onLost != lostWarn {
		return func() bool { return false }
	}
	return context.AfterFunc(lease.Context(), func() {
		r.warn(context.Cause(lease.Context()).Error() + "; the command goes on (--on-lost warn)")
	})
}

// finish releases the lock and says how the run ended.
func (r *run) finish(ctx context.Context, lease *holdfast.Lease, outcome supervise.Outcome, notStarted error) error {
	why := context.Cause(lease.Context()) // before the release ends it
	if outcome.Left {
		r.say("processes that the command started are still running; the lock is not kept for them (see --orphans)")
	}
	err := lease.Release(ctx)
	switch {
	case notStarted != nil:
		return notStarted
	case outcome.Lost && errors.Is(why, holdfast.ErrLost):
		return exitWith(codeLost, "%v", why)
	case outcome.Lost:
		return exitWith(codeLost, "lock %q could not be kept: the command was stopped before the lease ended", r.name)
	case errors.Is(err, holdfast.ErrLost):
		return exitWith(codeLost, "%v", err)
	case err != nil:
		r.warn("lock " + strconv.Quote(r.name) + " could not be released, it ends by its TTL: " + err.Error())
	}
	switch {
	case outcome.Late:
		return exitWith(codeLate, "the command was stopped after --max-runtime %v", time.Duration(r.flags.maxRuntime))
	case outcome.Unwatched:
		return exitWith(outcome.Code, "the supervisor of the command was killed, and the command with it")
	}
	return &exit{code: outcome.Code}
}
