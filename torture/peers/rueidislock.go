package main

import (
	"context"
	"errors"
	"net"
	"strings"
	"time"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"

	"github.com/holdfastlock/holdfast/torture/history"
	"github.com/holdfastlock/holdfast/torture/worker"
)

// rueidislockLocker is rueidislock as a worker uses it, with one server. A locker
// of it has one TTL for all its locks.
type rueidislockLocker struct {
	ttl, ownTTL rueidislock.Locker // by settings
	own         time.Duration
}

// openWithin is how long a worker tries to connect, which fails at once while the
// server is down.
const (
	openWithin = 20 * time.Second
	openAgain  = 50 * time.Millisecond
)

// openRueidislock opens a locker that acquires by PX, as for old servers, or by
// PXAT, which is the default.
func openRueidislock(px bool) worker.Open {
	return func(ctx context.Context, settings worker.Settings) (worker.Locker, error) {
		return newRueidislock(ctx, settings, px)
	}
}

func newRueidislock(ctx context.Context, settings worker.Settings, px bool) (*rueidislockLocker, error) {
	ctx, cancel := context.WithTimeout(ctx, openWithin)
	defer cancel()
	client, err := rueidis.ParseURL(settings.Store)
	if err != nil {
		return nil, err
	}
	client.AlwaysPipelining, client.ConnWriteTimeout = true, replyTimeout
	client.Dialer = net.Dialer{Timeout: dialTimeout, KeepAlive: tcpKeepAlive}
	option := rueidislock.LockerOption{
		ClientOption: client, KeyPrefix: strings.TrimSuffix(prefix, ":"),
		KeyMajority: 1, NoLoopTracking: true, // as its README has it for one server
		KeyValidity: settings.TTL, TryNextAfter: settings.TTL / 4, FallbackSETPX: px,
	}
	l := &rueidislockLocker{own: settings.OwnTTL}
	if l.ttl, err = connect(ctx, option); err != nil {
		return nil, err
	}
	option.KeyValidity = settings.OwnTTL
	if l.ownTTL, err = connect(ctx, option); err != nil {
		l.ttl.Close()
		return nil, err
	}
	return l, nil
}

// connect tries until ctx has ended.
func connect(ctx context.Context, option rueidislock.LockerOption) (rueidislock.Locker, error) {
	for {
		locker, err := rueidislock.NewLocker(option)
		if err == nil || ctx.Err() != nil {
			return locker, err
		}
		time.Sleep(openAgain)
	}
}

// Acquire implements worker.Locker. The context that rueidislock is given bounds
// the lock and not only the wait, so it gets one that ends with the wait or not
// at all.
func (l *rueidislockLocker) Acquire(ctx context.Context, request worker.Request) (worker.Lease, error) {
	locker := l.ttl
	if request.TTL == l.own {
		locker = l.ownTTL
	}
	lock := locker.TryWithContext
	if request.Wait > 0 {
		limited, cancel := context.WithTimeout(ctx, request.Wait)
		defer cancel()
		ctx, lock = limited, locker.WithContext
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	waiting, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	inTime := context.AfterFunc(ctx, giveUp)
	held, release, err := lock(waiting, request.Name)
	if !inTime() && err == nil {
		release()
		err = ctx.Err()
	}
	if err != nil {
		giveUp()
		return nil, err
	}
	return rueidislockLease{held, release, giveUp}, nil
}

// Outcome implements worker.Locker.
func (l *rueidislockLocker) Outcome(err error) history.Outcome {
	if errors.Is(err, rueidislock.ErrNotLocked) {
		return history.Held
	}
	return outcome(err)
}

// Close implements worker.Locker.
func (l *rueidislockLocker) Close(context.Context) error {
	l.ttl.Close()
	l.ownTTL.Close()
	return nil
}

// rueidislockLease is a lock that is trusted until its context ends: nothing
// else is told of it.
type rueidislockLease struct {
	ctx     context.Context
	release context.CancelFunc
	giveUp  context.CancelFunc
}

// noDeadline is longer than a run.
const noDeadline = 24 * time.Hour

// Fence implements worker.Lease: there is none.
func (rueidislockLease) Fence() int64 { return 0 }

// Deadline implements worker.Lease.
func (rueidislockLease) Deadline() time.Time { return time.Now().Add(noDeadline) }

// Done implements worker.Lease.
func (l rueidislockLease) Done() <-chan struct{} { return l.ctx.Done() }

// Extend implements worker.Lease: rueidislock extends by itself, and only so.
func (rueidislockLease) Extend(context.Context) error { return nil }

// Release implements worker.Lease. It is not told whether the key was deleted.
func (l rueidislockLease) Release(context.Context) error {
	l.release()
	l.giveUp()
	return nil
}
