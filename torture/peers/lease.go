package main

import (
	"context"
	"sync"
	"time"

	"github.com/holdfastlock/holdfast/torture/history"
	"github.com/holdfastlock/holdfast/torture/worker"
)

// held is a lock of a library that leaves the renewal to its user.
type held interface {
	// extend makes the lock last its TTL from now, and returns until when it is
	// trusted.
	extend(ctx context.Context) (until time.Time, err error)
	// release may be called again after an error.
	release(ctx context.Context) error
}

// lease is what a careful user builds around such a lock: renewal at a third
// of the TTL, and a context that ends at the deadline or when the library says
// that another has the lock.
type lease struct {
	held
	outcome func(error) history.Outcome
	ctx     context.Context
	cancel  context.CancelFunc
	expiry  *time.Timer

	extending sync.Mutex // one extension at a time
	mu        sync.Mutex
	deadline  time.Time
}

// keep begins the lease. Unless the request is plain it is renewed in a goroutine
// of running until it is released or over.
func keep(h held, outcome func(error) history.Outcome, request worker.Request, until time.Time, running *sync.WaitGroup) *lease {
	l := &lease{held: h, outcome: outcome, deadline: until}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	l.expiry = time.AfterFunc(time.Until(until), l.cancel)
	if !request.Plain {
		running.Go(func() { l.renew(request) })
	}
	return l
}

func (l *lease) renew(request worker.Request) {
	ticker := time.NewTicker(request.TTL / 3)
	defer ticker.Stop()
	for {
		select {
		case <-l.ctx.Done():
			return
		case <-ticker.C:
			if l.Extend(l.ctx) == nil {
				request.Extended(l.Deadline())
			}
		}
	}
}

// Extend implements worker.Lease. It gives up at the deadline, which an error
// does not move.
func (l *lease) Extend(ctx context.Context) error {
	l.extending.Lock()
	defer l.extending.Unlock()
	ctx, cancel := context.WithDeadline(ctx, l.Deadline())
	defer cancel()
	until, err := l.extend(ctx)
	if err != nil {
		if l.outcome(err) == history.LostLease {
			l.cancel()
		}
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.deadline = until
	l.expiry.Reset(time.Until(until))
	return nil
}

// Release implements worker.Lease. A context that has ended must not keep a
// careful user from releasing.
func (l *lease) Release(ctx context.Context) error {
	l.cancel()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), replyTimeout)
	defer cancel()
	return l.release(ctx)
}

// Deadline implements worker.Lease.
func (l *lease) Deadline() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.deadline
}

// Done implements worker.Lease.
func (l *lease) Done() <-chan struct{} { return l.ctx.Done() }

// Fence implements worker.Lease: none of these libraries has one.
func (l *lease) Fence() int64 { return 0 }
