package holdfast

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/holdfastlock/holdfast/driver"
)

// How persist paces its attempts.
const (
	firstPause   = 10 * time.Millisecond
	longestPause = 500 * time.Millisecond
)

// persist calls op again, with growing jittered pauses, while the store can't
// be reached, for limit at the most. Each op gets a context that ends with the
// limit. What comes back is the last error; if the limit ended it, that is
// ErrUnreachable, and if ctx did, it matches the error of ctx.
func (l *Locker) persist(ctx context.Context, limit time.Duration, op func(ctx context.Context) error) error {
	if ctx.Done() == nil && limit == l.limits.limit {
		return insist(ctx, l.limits.context(ctx), op)
	}
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return insist(ctx, limited, op)
}

// insist is persist with the context that ends with the limit, or with ctx.
func insist(ctx, limited context.Context, op func(ctx context.Context) error) error {
	began := time.Now()
	var last error
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		err := op(limited)
		if err == nil || !retryable(err) {
			return err
		}
		if errors.Is(err, ErrUnreachable) {
			last = err // says more than the timeout that may follow
		}
		if limited.Err() == nil {
			sleep(limited, jitter(pause))
		}
		switch {
		case ctx.Err() != nil:
			return fmt.Errorf("no answer from the store: %w", ctx.Err())
		case limited.Err() != nil && last != nil:
			return last
		case limited.Err() != nil:
			return &driver.Error{Kind: ErrUnreachable, Err: fmt.Errorf("no answer within %v", time.Since(began).Round(time.Millisecond))}
		}
	}
}

// retryable says whether asking again may help: the store did not answer.
func retryable(err error) bool {
	return errors.Is(err, ErrUnreachable) ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

// sleep returns after d or when ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// commonLimit gives contexts that end after a limit, or up to an eighth sooner,
// and only then. Calls that begin soon after one another share one: for a short
// call a timer of its own costs more than the rest.
type commonLimit struct {
	limit time.Duration

	mu     sync.Mutex
	shared context.Context
	end    context.CancelFunc // not called: nobody may end it for the others
	fresh  time.Time          // until when it is given away
}

// context returns one that has the values of ctx, and does not end with it.
func (c *commonLimit) context(ctx context.Context) context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); c.shared == nil || now.After(c.fresh) {
		c.shared, c.end = context.WithTimeout(context.Background(), c.limit)
		c.fresh = now.Add(c.limit / 8)
	}
	if ctx == context.Background() {
		return c.shared
	}
	return limitedContext{c.shared, ctx}
}

// withoutCancel returns a context that has the values of ctx and does not end.
func withoutCancel(ctx context.Context) context.Context {
	if ctx.Done() == nil {
		return ctx
	}
	return context.WithoutCancel(ctx)
}

// limitedContext is one context, but for its values.
type limitedContext struct {
	context.Context
	values context.Context
}

// Value implements context.Context.
func (c limitedContext) Value(key any) any { return c.values.Value(key) }
