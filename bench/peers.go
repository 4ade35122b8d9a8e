package main

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis"
	redsyncgoredis "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	redsyncrueidis "github.com/go-redsync/redsync/v4/redis/rueidis"
	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidiscompat"
	"github.com/redis/rueidis/rueidislock"
)

// How redislock waits. Its documentation recommends no less than 16 ms for the
// least pause.
const (
	redislockLeast = 16 * time.Millisecond
	redislockMost  = 256 * time.Millisecond
)

// redislockLocks is github.com/bsm/redislock.
type redislockLocks struct {
	client *redislock.Client
	ttl    time.Duration
	close  func()
}

func openRedislock(_ context.Context, addr string, ttl time.Duration) (locks, error) {
	client := goredis.NewClient(&goredis.Options{Addr: addr})
	return &redislockLocks{client: redislock.New(client), ttl: ttl, close: func() { client.Close() }}, nil
}

func openRedislockAutoPipeline(_ context.Context, addr string, ttl time.Duration) (locks, error) {
	client := goredis.NewClient(&goredis.Options{Addr: addr})
	pipeline, err := client.AutoPipeline()
	if err != nil {
		client.Close()
		return nil, err
	}
	return &redislockLocks{client: redislock.New(pipeline), ttl: ttl, close: func() {
		pipeline.Close()
		client.Close()
	}}, nil
}

func (r *redislockLocks) Acquire(ctx context.Context, key string) (func(context.Context) error, error) {
	// The strategy counts its pauses, so each call needs its own.
	wait := redislock.ExponentialBackoff(redislockLeast, redislockMost)
	lock, err := r.client.Obtain(ctx, key, r.ttl, &redislock.Options{RetryStrategy: wait})
	if err != nil {
		return nil, err
	}
	return lock.Release, nil
}

func (r *redislockLocks) Close() { r.close() }

// redsyncLocks is github.com/go-redsync/redsync on one server or many.
type redsyncLocks struct {
	sync    *redsync.Redsync
	ttl     time.Duration
	closers []func()
}

// openRedsync opens redsync on a pool for each server; addresses has one, or
// many with commas between.
func openRedsync(pool func(addr string) (redis.Pool, func(), error)) func(context.Context, string, time.Duration) (locks, error) {
	return func(_ context.Context, addresses string, ttl time.Duration) (locks, error) {
		all := &redsyncLocks{ttl: ttl}
		var pools []redis.Pool
		for _, addr := range strings.Split(addresses, ",") {
			one, closeOne, err := pool(addr)
			if err != nil {
				all.Close()
				return nil, err
			}
			pools, all.closers = append(pools, one), append(all.closers, closeOne)
		}
		all.sync = redsync.New(pools...)
		return all, nil
	}
}

func goredisPool(addr string) (redis.Pool, func(), error) {
	client := goredis.NewClient(&goredis.Options{Addr: addr})
	return redsyncgoredis.NewPool(client), func() { client.Close() }, nil
}

func rueidisPool(addr string) (redis.Pool, func(), error) {
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}})
	if err != nil {
		return nil, nil, err
	}
	return redsyncrueidis.NewPool(rueidiscompat.NewAdapter(client)), client.Close, nil
}

var errNotReleased = errors.New("redsync: not released")

// Acquire goes on after the number of tries at which redsync gives up.
func (r *redsyncLocks) Acquire(ctx context.Context, key string) (func(context.Context) error, error) {
	mutex := r.sync.NewMutex(key, redsync.WithExpiry(r.ttl))
	err := mutex.LockContext(ctx)
	for gaveUp(err) && ctx.Err() == nil {
		err = mutex.LockContext(ctx)
	}
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		released, err := mutex.UnlockContext(ctx)
		if err == nil && !released {
			err = errNotReleased
		}
		return err
	}, nil
}

// gaveUp says that redsync has tried as often as it does, and was refused.
func gaveUp(err error) bool {
	var taken *redsync.ErrTaken
	return errors.Is(err, redsync.ErrFailed) || errors.As(err, &taken)
}

func (r *redsyncLocks) Close() {
	for _, closeOne := range r.closers {
		closeOne()
	}
}

// rueidislockLocks is github.com/redis/rueidis/rueidislock.
type rueidislockLocks struct{ locker rueidislock.Locker }

func openRueidislock(_ context.Context, addr string, ttl time.Duration) (locks, error) {
	locker, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption: rueidis.ClientOption{InitAddress: []string{addr}},
		KeyValidity:  ttl, KeyMajority: 1, NoLoopTracking: true,
		// A call whose own attempt times out, by default after 20 ms, may never
		// return. With one server there is no next key to try.
		TryNextAfter: 5 * time.Second,
	})
	return &rueidislockLocks{locker}, err
}

func (r *rueidislockLocks) Acquire(ctx context.Context, key string) (func(context.Context) error, error) {
	_, cancel, err := r.locker.WithContext(ctx, key)
	if err != nil {
		return nil, err
	}
	return func(context.Context) error {
		cancel()
		return nil
	}, nil
}

func (r *rueidislockLocks) Close() { r.locker.Close() }
