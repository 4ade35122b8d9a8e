package holdfastgocron

import (
	"context"
	"errors"
	"sync"

	"golang.org/x/sync/singleflight"

	"github.com/holdfastlock/holdfast"
	"github.com/holdfastlock/holdfast/driver"
)

// ElectorConfig is what is decided once for an Elector.
type ElectorConfig struct {
	// Name is the name of the lock whose holder leads. It is required.
	Name string
	// Options are those of the acquisition.
	Options []holdfast.AcquireOption
	// Failed is called when leadership was lost, with a *holdfast.LostError, and
	// when an attempt to lead failed for another reason than that another leads,
	// such as holdfast.ErrUnreachable. gocron tells nobody. It may be nil, and is
	// called from any goroutine.
	Failed func(err error)
}

// Elector is a gocron.Elector: the host that holds the lease on its name leads,
// and gocron runs jobs there alone. A host stands for leadership when gocron asks,
// at its ticks, and then leads until it closes the Elector or loses the lease,
// which is kept alive. It is safe for concurrent use.
//
// The end of leadership counts from the next tick on. It does not stop a job that
// runs: a job that must stop takes the context of Lease. Nor does an Elector make
// a tick run once when the leader changes; see Task.
type Elector struct {
	locker   *holdfast.Locker
	config   ElectorConfig
	attempts singleflight.Group // one at a time; all who ask meanwhile get its answer
	lifetime context.Context    // ends with Close
	end      context.CancelFunc

	mu    sync.Mutex
	lease *holdfast.Lease // the last; nil before the first
}

// NewElector returns an Elector, without I/O. An error says that the name can't
// be that of a lock. Close it before the holdfast.Locker.
func NewElector(locker *holdfast.Locker, config ElectorConfig) (*Elector, error) {
	if err := driver.CheckName(config.Name); err != nil {
		return nil, err
	}
	e := &Elector{locker: locker, config: config}
	e.lifetime, e.end = context.WithCancel(context.Background())
	return e, nil
}

// IsLeader returns nil if this host leads, after an attempt to if nobody does.
// The error is a *holdfast.HeldError that says who leads, or matches
// holdfast.ErrUnreachable if the store did not answer, holdfast.ErrClosed after
// Close, or the error of ctx. gocron skips the tick on any error, and drops it.
func (e *Elector) IsLeader(ctx context.Context) error {
	_, err := e.Lease(ctx)
	return err
}

// Lease returns the lease by which this host leads, with its fencing token and a
// context that ends with the leadership; Close releases it, nobody else. Errors
// are those of IsLeader.
func (e *Elector) Lease(ctx context.Context) (*holdfast.Lease, error) {
	if lease := e.current(); lease != nil {
		return lease, nil
	}
	select {
	case attempt := <-e.attempts.DoChan("", e.stand):
		lease, _ := attempt.Val.(*holdfast.Lease)
		return lease, attempt.Err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// current returns the lease if it is trusted now.
func (e *Elector) current() *holdfast.Lease {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.lease == nil || !e.lease.Valid(0) {
		return nil
	}
	return e.lease
}

// stand is one attempt to lead.
func (e *Elector) stand() (any, error) {
	if lease := e.current(); lease != nil { // of the attempt just before
		return lease, nil
	}
	lease, err := e.locker.TryAcquire(e.lifetime, e.config.Name, e.config.Options...)
	switch {
	case e.lifetime.Err() != nil && err != nil:
		return nil, holdfast.ErrClosed
	case err != nil:
		if !errors.Is(err, holdfast.ErrHeld) {
			e.failed(err)
		}
		return nil, err
	}
	context.AfterFunc(lease.Context(), func() {
		if lost := context.Cause(lease.Context()); errors.Is(lost, holdfast.ErrLost) {
			e.failed(lost)
		}
	})
	e.mu.Lock()
	defer e.mu.Unlock()
	e.lease = lease
	return lease, nil
}

func (e *Elector) failed(err error) {
	if e.config.Failed != nil {
		e.config.Failed(err)
	}
}

// Close ends the leadership, so that another host can lead at its next tick, and
// all attempts to lead. Shut the scheduler down first, so that no job of this host
// still runs. The error is that of holdfast.Lease.Release.
func (e *Elector) Close(ctx context.Context) error {
	e.end()
	_, _, _ = e.attempts.Do("", e.stand) // waits for one that is under way
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.lease == nil {
		return nil
	}
	return e.lease.Release(ctx)
}
