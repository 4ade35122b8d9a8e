package worker

import (
	"context"
	"sync"
	"time"

	"github.com/holdfastlock/holdfast/torture/history"
)

// tenure is a lease that a client holds.
type tenure struct {
	*client
	lease    Lease
	name     string
	op       int64 // of the acquire
	over     chan struct{}
	watching sync.WaitGroup
}

// keep returns the tenure of a lease that the operation of e has given.
func (c *client) keep(lease Lease, e history.Event) *tenure {
	t := &tenure{client: c, lease: lease, name: e.Name, op: e.Op, over: make(chan struct{})}
	t.watching.Go(t.watch)
	return t
}

// watch records the loss of the lease.
func (t *tenure) watch() {
	select {
	case <-t.over:
	case <-t.lease.Done():
		select {
		case <-t.over: // by the release
		default:
			t.record.add(history.Event{Kind: history.Lost, Client: t.number, Op: t.op, Name: t.name})
		}
	}
}

// end ends the watch: what becomes of the lease is no loss any more.
func (t *tenure) end() {
	close(t.over)
	t.watching.Wait()
}

// lost says whether the client knows that it lost the lease.
func (t *tenure) lost() bool {
	select {
	case <-t.lease.Done():
		return true
	default:
		return false
	}
}

// work takes d, or until the lease is lost.
func (t *tenure) work(d time.Duration) {
	select {
	case <-time.After(d):
	case <-t.lease.Done():
	}
}

// under returns the event of an operation under the lease.
func (t *tenure) under(do history.Do, name string) history.Event {
	return history.Event{Lease: t.op, Do: do, Name: name, Fence: t.lease.Fence()}
}

// extend says whether the store has confirmed the lease.
func (t *tenure) extend() bool {
	e := t.observe(t.under(history.Extend, t.name), func(e *history.Event) error {
		err := t.lease.Extend(context.Background())
		if err == nil {
			e.Deadline = history.Moment(t.lease.Deadline())
		}
		return err
	})
	return e.Outcome == history.OK
}

// twice is how often a release is tried at the most, unless others must not
// have to wait for the TTL to end.
const twice = 2

// release gives the lock back, sometimes under a context that has ended, and
// tries it again while it is not answered.
func (t *tenure) release(tries int) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if t.oneIn(10) {
		cancel()
	}
	t.end()
	for range tries {
		e := t.observe(t.under(history.Release, t.name), func(*history.Event) error { return t.lease.Release(ctx) })
		if !e.Outcome.Unknown() {
			return
		}
	}
}
