package holdfastgocron

import (
	"context"
	"sync"

	"github.com/go-co-op/gocron/v2"

	"github.com/holdfastlock/holdfast"
	"github.com/holdfastlock/holdfast/once"
)

// LockerConfig is what is decided once for a Locker.
type LockerConfig struct {
	// Schedule says which slot a start belongs to. It is required.
	Schedule once.Schedule
	// Options are those of once.Run. With StandBy, Lock waits while another runs
	// the slot, and gocron plans no further tick of the job on this host meanwhile.
	Options []once.Option
	// Failed is called when the lease of a job that runs was lost, with a
	// *holdfast.LostError, while the job still runs; or when its slot could not
	// be marked done, so that it may run again. gocron tells nobody. It may be
	// nil, is called from any goroutine, and should return soon: Unlock waits.
	Failed func(job string, err error)
}

// Locker is a gocron.Locker for jobs of one schedule: give it to
// gocron.WithDistributedJobLocker, or to gocron.WithDistributedLocker if all jobs
// have that schedule. It is safe for concurrent use and needs no closing.
//
// The slot is marked done when gocron calls Unlock, with code 0, whatever the
// job came to, of which gocron tells nothing: also if it failed, was cut off by a
// shutdown, panicked and gocron recovered, or was not started after all because
// of gocron.BeforeJobRunsSkipIfBeforeFuncErrors. If the lease is lost, the job
// goes on, since nothing can stop it, and another host may begin; Failed is told.
// Use Task where that matters.
type Locker struct {
	locker *holdfast.Locker
	config LockerConfig
}

// NewLocker returns a Locker. An error matches holdfast.ErrMisconfigured.
func NewLocker(locker *holdfast.Locker, config LockerConfig) (*Locker, error) {
	if err := config.Schedule.Err(); err != nil {
		return nil, err
	}
	return &Locker{locker: locker, config: config}, nil
}

// Lock begins the slot that the job has now; key is the name of the job, and of
// the lock in the store. The error, which gocron passes to
// gocron.AfterLockError, is a *SkippedError if there is nothing to do here, and
// else that of once.Run: it matches holdfast.ErrHeld if another slot of the job
// still runs, holdfast.ErrUnreachable if the store did not answer, and the error
// of ctx if that ended.
func (l *Locker) Lock(ctx context.Context, key string) (gocron.Lock, error) {
	h := &hold{begun: make(chan struct{}), unlock: make(chan struct{}), ended: make(chan struct{})}
	go h.run(ctx, l, key)
	select {
	case <-h.begun:
		return h, nil
	case <-h.ended:
		if h.err == nil {
			return nil, &SkippedError{Job: key, Result: h.result}
		}
		return nil, h.err
	}
}

// hold is one slot that is being run: a gocron.Lock.
type hold struct {
	begun      chan struct{} // closed when the slot is
	unlock     chan struct{} // closed when the job has returned
	unlockOnce sync.Once
	ended      chan struct{} // closed when what follows is set
	result     once.Result
	err        error
}

// run is the goroutine.
func (h *hold) run(ctx context.Context, l *Locker, job string) {
	defer close(h.ended)
	h.result, h.err = once.Run(ctx, l.locker, job, l.config.Schedule, h.work, l.config.Options...)
	if h.err != nil && h.result.Outcome == once.Ran && l.config.Failed != nil {
		l.config.Failed(job, h.err)
	}
}

// work stands for the job, which gocron runs between Lock and Unlock. It goes by
// the lease and not by its context, which gocron ends at shutdown while the job
// still runs.
func (h *hold) work(_ context.Context, attempt once.Attempt) error {
	close(h.begun)
	select {
	case <-h.unlock:
		return nil
	case <-attempt.Lease.Context().Done():
		return context.Cause(attempt.Lease.Context())
	}
}

// Unlock marks the slot done and frees the job, whether its context has ended or
// not. The error matches holdfast.ErrLost if the lease was lost, and
// holdfast.ErrUnreachable if the store did not answer; then the slot may run
// again. gocron ignores it. A store that does not answer is tried as long as the
// lease lasts; if the context given to Lock has ended, as at shutdown, for
// holdfast.Config.StoreTimeout at the most.
func (h *hold) Unlock(context.Context) error {
	h.unlockOnce.Do(func() { close(h.unlock) })
	<-h.ended
	return h.err
}
