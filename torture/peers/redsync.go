package main

import (
	"context"
	"errors"
	"math"
	"sync"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"

	"github.com/holdfastlock/holdfast/torture/history"
	"github.com/holdfastlock/holdfast/torture/worker"
)

// redsyncTimeout is the share of the TTL for which redsync waits for an answer:
// of the default, 0.05, a TTL of a second would leave 50 ms.
const redsyncTimeout = 0.25

// redsyncLocker is redsync as a worker uses it, with one server.
type redsyncLocker struct {
	client  *redis.Client
	locks   *redsync.Redsync
	running sync.WaitGroup
}

func openRedsync(_ context.Context, settings worker.Settings) (worker.Locker, error) {
	client, err := newGoRedis(settings.Store)
	if err != nil {
		return nil, err
	}
	return &redsyncLocker{client: client, locks: redsync.New(goredis.NewPool(client))}, nil
}

// Acquire implements worker.Locker.
func (l *redsyncLocker) Acquire(ctx context.Context, request worker.Request) (worker.Lease, error) {
	mutex := l.locks.NewMutex(prefix+request.Name, redsync.WithExpiry(request.TTL),
		redsync.WithTimeoutFactor(redsyncTimeout), redsync.WithTries(math.MaxInt)) // ctx ends the wait
	lock := mutex.TryLockContext
	if request.Wait > 0 {
		limited, cancel := context.WithTimeout(ctx, request.Wait)
		defer cancel()
		ctx, lock = limited, mutex.LockContext
	}
	if err := lock(ctx); err != nil {
		return nil, err
	}
	return keep(redsyncHeld{mutex}, l.held, request, mutex.Until(), &l.running), nil
}

// held sorts the errors of a mutex that was locked.
func (l *redsyncLocker) held(err error) history.Outcome {
	if o := l.Outcome(err); o != history.Held {
		return o
	}
	return history.LostLease
}

// Outcome implements worker.Locker.
func (l *redsyncLocker) Outcome(err error) history.Outcome {
	var taken *redsync.ErrTaken
	switch {
	case errors.As(err, &taken):
		return history.Held
	case errors.Is(err, redsync.ErrLockAlreadyExpired), errors.Is(err, redsync.ErrExtendFailed):
		return history.LostLease
	case errors.Is(err, redsync.ErrFailed): // the wait was over
		return history.Cancelled
	default:
		return outcome(err)
	}
}

// Close implements worker.Locker.
func (l *redsyncLocker) Close(context.Context) error {
	err := l.client.Close()
	l.running.Wait()
	return err
}

// redsyncHeld is a mutex that was locked.
type redsyncHeld struct{ mutex *redsync.Mutex }

func (h redsyncHeld) extend(ctx context.Context) (time.Time, error) {
	if ok, err := h.mutex.ExtendContext(ctx); err != nil || !ok {
		return time.Time{}, errors.Join(err, failed(ok, redsync.ErrExtendFailed))
	}
	return h.mutex.Until(), nil
}

func (h redsyncHeld) release(ctx context.Context) error {
	ok, err := h.mutex.UnlockContext(ctx)
	return errors.Join(err, failed(ok, errors.New("not unlocked")))
}

// failed is err unless ok.
func failed(ok bool, err error) error {
	if ok {
		return nil
	}
	return err
}
