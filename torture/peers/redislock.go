package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"

	"github.com/holdfastlock/holdfast/torture/history"
	"github.com/holdfastlock/holdfast/torture/worker"
)

// redislockRetry is how often redislock tries a lock that is held: the backoff
// of its own examples.
const redislockRetry = 100 * time.Millisecond

// redislockLocker is redislock as a worker uses it.
type redislockLocker struct {
	client  *redis.Client
	locks   *redislock.Client
	running sync.WaitGroup
	// fromRequest counts the TTL from before the request, which redislock leaves
	// to its user: Obtain is then called once for each try. Otherwise it is
	// counted from the return of Obtain and Refresh, as the README reads.
	fromRequest bool
}

func openRedislock(fromRequest bool) worker.Open {
	return func(_ context.Context, settings worker.Settings) (worker.Locker, error) {
		client, err := newGoRedis(settings.Store)
		if err != nil {
			return nil, err
		}
		return &redislockLocker{client: client, locks: redislock.New(client), fromRequest: fromRequest}, nil
	}
}

// Acquire implements worker.Locker.
func (l *redislockLocker) Acquire(ctx context.Context, request worker.Request) (worker.Lease, error) {
	if request.Wait > 0 {
		limited, cancel := context.WithTimeout(ctx, request.Wait)
		defer cancel()
		ctx = limited
	}
	lock, asked, err := l.obtain(ctx, request)
	if err != nil {
		return nil, err
	}
	h := redislockHeld{lock, request.TTL, l.fromRequest}
	return keep(h, l.held, request, h.until(asked), &l.running), nil
}

// obtain returns the lock and the time before the request that got it, or before
// the first of them.
func (l *redislockLocker) obtain(ctx context.Context, request worker.Request) (lock *redislock.Lock, asked time.Time, err error) {
	var options *redislock.Options
	if request.Wait > 0 && !l.fromRequest {
		options = &redislock.Options{RetryStrategy: redislock.LinearBackoff(redislockRetry)}
	}
	for {
		asked = time.Now()
		lock, err = l.locks.Obtain(ctx, prefix+request.Name, request.TTL, options)
		if !errors.Is(err, redislock.ErrNotObtained) || request.Wait == 0 {
			return lock, asked, err
		}
		select {
		case <-ctx.Done():
			return nil, asked, ctx.Err()
		case <-time.After(redislockRetry):
		}
	}
}

// held sorts the errors of a lock that was obtained.
func (l *redislockLocker) held(err error) history.Outcome {
	if errors.Is(err, redislock.ErrNotObtained) {
		return history.LostLease
	}
	return l.Outcome(err)
}

// Outcome implements worker.Locker.
func (l *redislockLocker) Outcome(err error) history.Outcome {
	switch {
	case errors.Is(err, redislock.ErrNotObtained):
		return history.Held
	case errors.Is(err, redislock.ErrLockNotHeld):
		return history.LostLease
	default:
		return outcome(err)
	}
}

// Close implements worker.Locker.
func (l *redislockLocker) Close(context.Context) error {
	err := l.client.Close()
	l.running.Wait()
	return err
}

// redislockHeld is a lock that was obtained.
type redislockHeld struct {
	lock        *redislock.Lock
	ttl         time.Duration
	fromRequest bool
}

// until returns the end of a TTL that was asked for then and answered now.
func (h redislockHeld) until(asked time.Time) time.Time {
	if h.fromRequest {
		return asked.Add(h.ttl)
	}
	return time.Now().Add(h.ttl)
}

func (h redislockHeld) extend(ctx context.Context) (time.Time, error) {
	asked := time.Now()
	if err := h.lock.Refresh(ctx, h.ttl, nil); err != nil {
		return time.Time{}, err
	}
	return h.until(asked), nil
}

func (h redislockHeld) release(ctx context.Context) error { return h.lock.Release(ctx) }
