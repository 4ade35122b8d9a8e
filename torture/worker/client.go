package worker

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/holdfastlock/holdfast/torture/history"
	"github.com/holdfastlock/holdfast/torture/resource"
)

// client is one goroutine, whose calls follow one another.
type client struct {
	Settings
	locker    Locker
	record    *record
	resources *resource.Client
	number    int
	rand      *rand.Rand
	stop      <-chan struct{}
}

// longestPause is that between two activities.
const longestPause = 15 * time.Millisecond

func (c *client) run() {
	for {
		select {
		case <-c.stop:
			return
		case <-time.After(c.upTo(longestPause)):
			c.act()
		}
	}
}

func (c *client) act() {
	if database, ok := c.locker.(Database); ok && c.oneIn(3) {
		c.inDatabase(database)
		return
	}
	switch percent := c.rand.IntN(100); {
	case percent < 35:
		c.compete()
	case percent < 55:
		c.alone()
	case percent < 75:
		c.queue()
	case percent < 95:
		c.update()
	default:
		c.runSlot()
	}
}

// upTo returns a random time up to d.
func (c *client) upTo(d time.Duration) time.Duration {
	return time.Duration(c.rand.Int64N(int64(d) + 1))
}

// oneIn says true once in n times.
func (c *client) oneIn(n int) bool { return c.rand.IntN(n) == 0 }

func (c *client) oneOf(names []string) string { return names[c.rand.IntN(len(names))] }

// compete acquires a lock that everybody wants: it tries, waits with a limit, or
// waits under a context that ends at any moment.
func (c *client) compete() {
	names := slices.Concat(c.Names.Locks, c.Names.Delayed, c.Names.Unfenced)
	if len(names) == 0 {
		return
	}
	ctx, request := context.Background(), Request{Name: c.oneOf(names), TTL: c.TTL}
	request.Unfenced = slices.Contains(c.Names.Unfenced, request.Name)
	if slices.Contains(c.Names.Delayed, request.Name) {
		request.LockDelay = LockDelay(c.TTL)
	}
	if c.oneIn(4) {
		request.Plain, request.TTL = true, c.TTL/4
	}
	switch c.rand.IntN(4) {
	case 0:
		request.Wait = c.upTo(2 * c.TTL)
	case 1:
		limited, cancel := context.WithTimeout(ctx, c.upTo(c.TTL/4))
		defer cancel()
		ctx, request.Wait = limited, ages*c.TTL
	}
	t := c.acquire(ctx, request)
	switch {
	case t == nil:
		return
	case request.Plain: // to its end, which is the deadline
		if c.oneIn(3) {
			t.extend()
		}
		t.work(c.TTL)
	default:
		c.hold(t)
	}
	t.release(twice)
}

// LockDelay is that of the delayed locks.
func LockDelay(ttl time.Duration) time.Duration { return ttl / 2 }

// ages is how many TTLs are longer than anything may take.
const ages = 10

// Own begins the names that one process alone uses; its name follows.
const Own = "own/"

// alone acquires a lock that nobody else wants, sometimes under a context that
// ends while it asks. Were the lock left taken, even by this client, it would wait
// for ages the next time: also by a release that left it to its lock delay. It has
// a second name for leases without a fence.
func (c *client) alone() {
	ctx := context.Background()
	if c.oneIn(4) {
		limited, cancel := context.WithTimeout(ctx, c.upTo(3*time.Millisecond))
		defer cancel()
		ctx = limited
	}
	request := Request{Name: fmt.Sprintf("%s%s/%d", Own, c.Process, c.number), TTL: c.OwnTTL, Wait: ages * c.TTL}
	if len(c.Names.Delayed) > 0 && c.oneIn(2) {
		request.LockDelay = c.OwnTTL
	}
	if len(c.Names.Unfenced) > 0 && c.oneIn(2) {
		request.Name, request.Unfenced = request.Name+"/unfenced", true
	}
	if t := c.acquire(ctx, request); t != nil {
		t.work(c.upTo(2 * time.Millisecond))
		t.release(ages)
	}
}

// queue waits for a lock that many wait for and each holds shortly; many give
// up.
func (c *client) queue() {
	if len(c.Names.Queues) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), c.upTo(c.TTL))
	defer cancel()
	if t := c.acquire(ctx, Request{Name: c.oneOf(c.Names.Queues), TTL: c.TTL, Wait: ages * c.TTL}); t != nil {
		t.work(c.upTo(2 * time.Millisecond))
		t.release(twice)
	}
}

// hold works under a lease: mostly shortly, sometimes for longer than the TTL;
// it may extend the lease.
func (c *client) hold(t *tenure) {
	d := c.upTo(4 * time.Millisecond)
	switch {
	case c.oneIn(6):
		d = c.TTL + c.upTo(3*c.TTL)
	case c.oneIn(20):
		d = c.upTo(c.TTL / 3)
	}
	t.work(d / 2)
	if c.oneIn(6) {
		t.extend()
	}
	t.work(d / 2)
}

// acquire returns nil if it failed.
func (c *client) acquire(ctx context.Context, request Request) *tenure {
	var lease Lease
	e := history.Event{Do: history.Acquire, Name: request.Name, Delay: int64(request.LockDelay), Unfenced: request.Unfenced}
	e = c.observe(e, func(e *history.Event) (err error) {
		request.Extended = c.extended(e.Op)
		if lease, err = c.locker.Acquire(ctx, request); err == nil {
			e.Fence, e.Deadline = lease.Fence(), history.Moment(lease.Deadline())
		}
		return err
	})
	switch e.Outcome {
	case history.OK:
		return c.keep(lease, e)
	case history.Refused, history.Failed:
		time.Sleep(c.upTo(c.TTL / 10)) // as a program would, and to not flood the history
		return nil
	default:
		return nil
	}
}

// observe records the call of an operation, what it does, and its return. Do may
// set fields of the return, and returns an error of the library.
func (c *client) observe(e history.Event, do func(e *history.Event) error) history.Event {
	e.Client = c.number
	e.Op = c.record.call(e)
	err := do(&e)
	e.Kind = history.Return
	if e.Outcome == "" {
		e.Outcome = c.locker.Outcome(err)
	}
	if err != nil {
		e.Note = err.Error()
	}
	c.record.add(e)
	return e
}

// extended returns what records an extension of the lease of an operation.
func (c *client) extended(op int64) func(time.Time) {
	return func(deadline time.Time) {
		c.record.add(history.Event{
			Kind: history.Extended, Client: c.number, Op: op, Deadline: history.Moment(deadline),
		})
	}
}
