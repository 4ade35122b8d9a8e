package main

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/holdfastlock/holdfast"
	"github.com/holdfastlock/holdfast/once"
	"github.com/holdfastlock/holdfast/torture/history"
	"github.com/holdfastlock/holdfast/torture/worker"
)

// locker is holdfast as a worker uses it: by its public API.
type locker struct {
	*holdfast.Locker
	store io.Closer

	mu       sync.Mutex
	extended map[*holdfast.Lease]func(time.Time)
}

func openHoldfast(ctx context.Context, settings worker.Settings) (worker.Locker, error) {
	store, closer, err := openStore(ctx, settings)
	if err != nil {
		return nil, err
	}
	l := &locker{store: closer, extended: make(map[*holdfast.Lease]func(time.Time))}
	l.Locker, err = holdfast.New(store, holdfast.Config{
		Owner: settings.Process, TTL: settings.TTL, StoreTimeout: settings.StoreTimeout,
		Events: holdfast.Events{Extended: l.tell},
	})
	if err == nil && strings.HasPrefix(settings.Store, "postgres:") {
		return openDatabase(l, settings)
	}
	return l, err
}

// tell records the extension of a lease. Where an event can be of several, one that
// is over and its successor, since they have no fence, each is asked.
func (l *locker) tell(e holdfast.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for held, extended := range l.extended {
		if held.Name() == e.Name && held.Fence() == e.Fence {
			extended(held.Deadline())
		}
	}
}

// Acquire implements worker.Locker.
func (l *locker) Acquire(ctx context.Context, request worker.Request) (worker.Lease, error) {
	opts := []holdfast.AcquireOption{holdfast.WithTTL(request.TTL), holdfast.WithMaxWait(request.Wait)}
	if request.Plain {
		opts = append(opts, holdfast.WithoutKeepAlive())
	}
	if request.Unfenced {
		opts = append(opts, holdfast.WithoutFence())
	}
	if request.LockDelay > 0 {
		opts = append(opts, holdfast.WithLockDelay(request.LockDelay))
	}
	held, err := l.Locker.Acquire(ctx, request.Name, opts...)
	if err != nil {
		return nil, err
	}
	return l.keep(held, request.Extended), nil
}

// keep tells extended of the lease's renewals. Those before are in its deadline,
// which is yet to be asked for.
func (l *locker) keep(held *holdfast.Lease, extended func(time.Time)) lease {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.extended[held] = extended
	return lease{held, l}
}

func (l *locker) forget(held *holdfast.Lease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.extended, held)
}

// RunSlot implements worker.SlotRunner.
func (l *locker) RunSlot(ctx context.Context, run worker.Run) (slot string, skipped bool, err error) {
	schedule := once.Every(time.Second)
	if run.Slot != "" {
		schedule = once.Slot(run.Slot)
	}
	work := func(_ context.Context, attempt once.Attempt) error {
		held := l.keep(attempt.Lease, run.Extended)
		defer l.forget(attempt.Lease)
		run.Work(attempt.Slot, attempt.Number, held)
		return nil
	}
	var opts []once.Option
	if run.StandBy > 0 {
		opts = append(opts, once.StandBy(run.StandBy))
	}
	result, err := once.Run(ctx, l.Locker, run.Job, schedule, work, opts...)
	if errors.Is(err, holdfast.ErrHeld) { // by another's run, to its end
		return result.Slot, true, nil
	}
	return result.Slot, result.Outcome != once.Ran, err
}

// Outcome implements worker.Locker.
func (l *locker) Outcome(err error) history.Outcome {
	for _, known := range []struct {
		err     error
		outcome history.Outcome
	}{
		{nil, history.OK},
		{holdfast.ErrHeld, history.Held}, // also when a context ended the wait
		{holdfast.ErrLost, history.LostLease},
		{context.Canceled, history.Cancelled},
		{context.DeadlineExceeded, history.Cancelled},
		{holdfast.ErrUnreachable, history.Unreachable},
		{holdfast.ErrRefused, history.Refused},
	} {
		if errors.Is(err, known.err) {
			return known.outcome
		}
	}
	return history.Failed
}

// Close implements worker.Locker.
func (l *locker) Close(ctx context.Context) error {
	return errors.Join(l.Locker.Close(ctx), l.store.Close())
}

// lease is a lease of holdfast as a worker uses it.
type lease struct {
	*holdfast.Lease
	locker *locker
}

// Done implements worker.Lease.
func (l lease) Done() <-chan struct{} { return l.Context().Done() }

// Extend implements worker.Lease.
func (l lease) Extend(ctx context.Context) error { return l.Confirm(ctx) }

// Release implements worker.Lease.
func (l lease) Release(ctx context.Context) error {
	l.locker.forget(l.Lease)
	return l.Lease.Release(ctx)
}
