package sim

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/holdfastlock/holdfast"
	"github.com/holdfastlock/holdfast/driver"
	"github.com/holdfastlock/holdfast/torture/history"
)

// client is one goroutine of a process that uses its locker.
type client struct {
	process *process
	number  int
	random  *rand.Rand
	ending  context.Context
	end     context.CancelFunc
	parked  []*holdfast.Lease // that it has forgotten to release
}

func newClient(p *process, number int) *client {
	c := &client{process: p, number: number, random: p.world.newRandom()}
	c.ending, c.end = context.WithCancel(context.Background())
	return c
}

// run works until it is ended or the process is. It releases what it holds.
func (c *client) run() {
	for c.ending.Err() == nil && c.pause(c.upTo(3*time.Second)) {
		switch roll := c.random.IntN(10); {
		case roll < 2:
			c.runSlot()
		case roll < 4 && len(c.parked) > 0:
			c.release(c.parked[0])
			c.parked = c.parked[1:]
		default:
			c.tenure()
		}
	}
	for _, lease := range c.parked {
		c.release(lease)
	}
}

// pause returns after d, and says whether the process lives.
func (c *client) pause(d time.Duration) bool {
	time.Sleep(d)
	c.process.gate()
	return !c.process.isDead()
}

func (c *client) upTo(d time.Duration) time.Duration {
	return time.Duration(c.random.Int64N(int64(d)))
}

func (c *client) chance(percent int) bool { return c.random.IntN(100) < percent }

// context returns the context of a call: one that ends soon, or with the client.
func (c *client) context() (context.Context, context.CancelFunc) {
	ctx := c.ending
	switch c.random.IntN(4) {
	case 0:
		return context.WithTimeout(ctx, c.upTo(15*time.Second))
	case 1:
		ctx, cancel := context.WithCancel(ctx)
		stop := time.AfterFunc(c.upTo(5*time.Second), cancel)
		return ctx, func() { stop.Stop(); cancel() }
	default:
		return context.WithCancel(ctx)
	}
}

// options returns those of one acquire, and its TTL.
func (c *client) options() ([]holdfast.AcquireOption, time.Duration) {
	lasts := ttl
	var opts []holdfast.AcquireOption
	switch c.random.IntN(8) {
	case 0, 1:
		lasts = 2 * time.Second
	case 2:
		lasts = time.Hour
	}
	if lasts != ttl {
		opts = append(opts, holdfast.WithTTL(lasts))
	}
	if c.chance(30) {
		opts = append(opts, holdfast.WithoutKeepAlive())
	}
	switch c.random.IntN(3) {
	case 0:
		opts = append(opts, holdfast.WithMaxWait(0))
	case 1:
		opts = append(opts, holdfast.WithMaxWait(c.upTo(20*time.Second)))
	}
	return opts, lasts
}

// tenure acquires a name, works under the lock, and releases it.
func (c *client) tenure() {
	p := c.process
	ctx, cancel := c.context()
	defer cancel()
	opts, lasts := c.options()
	name := names[c.random.IntN(len(names))]
	event := history.Event{Process: p.name, Client: c.number, Op: p.nextOp(), Do: history.Acquire, Name: name}
	before := p.world.call(event)
	called := time.Now()
	lease, err := p.locker.Acquire(ctx, name, opts...)
	if lease != nil {
		event.Fence = lease.Fence()
		p.world.granted(&tenure{process: p, lease: lease, ttl: lasts, called: called}, before)
	}
	p.gate()
	if p.isDead() {
		return
	}
	c.answered(event, err)
	switch {
	case lease == nil:
	case c.chance(40): // so soon that it is passed on, if another waits here
		c.release(lease)
	case c.work(lease, event.Op):
		c.leave(lease)
	}
}

// leave releases the lease, or forgets to for a while.
func (c *client) leave(lease *holdfast.Lease) {
	if c.chance(15) {
		c.parked = append(c.parked, lease)
		return
	}
	c.release(lease)
}

// release releases the lease, half of the time under a context that has ended.
func (c *client) release(lease *holdfast.Lease) {
	p := c.process
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if c.chance(50) {
		cancel()
	}
	event := history.Event{
		Process: p.name, Client: c.number, Op: p.nextOp(), Do: history.Release, Name: lease.Name(), Fence: lease.Fence(),
	}
	p.world.call(event)
	err := lease.Release(ctx)
	p.world.released(p, lease, err)
	p.gate()
	if p.isDead() {
		return
	}
	c.answered(event, err)
	if errors.Is(err, holdfast.ErrUnreachable) {
		c.parked = append(c.parked, lease) // or it stays in the store until its TTL ends
	}
	if err == nil && c.chance(30) && c.pause(c.upTo(100*time.Millisecond)) {
		c.release(lease) // which does nothing any more
	}
}

// call notes a call and returns the largest fence that anybody has been told.
func (w *world) call(e history.Event) int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	e.Kind = history.Call
	w.note(e)
	return w.fences[e.Name].returned
}

// released checks what a release has come to.
func (w *world) released(p *process, lease *holdfast.Lease, err error) {
	if errors.Is(err, context.Canceled) {
		w.violate("release", "%s: the release by %s gave up with the caller's context: %v", lease.Name(), p.name, err)
	}
	// A lease that was passed on has no token any more.
	if token := lease.Token(); err == nil && token != "" && w.holder(lease.Name()).Token == token {
		w.violate("release", "%s: released by %s, it is still in the store", lease.Name(), p.name)
	}
}

// holder asks the store itself who holds a name.
func (w *world) holder(name string) driver.Holder {
	state, err := w.memory.Inspect(context.Background(), name)
	if err != nil {
		panic(err) // memstore fails only when asked to
	}
	if len(state.Holders) == 0 {
		return driver.Holder{}
	}
	return state.Holders[0]
}

// answered notes what a call came to.
func (c *client) answered(e history.Event, err error) {
	e.Kind = history.Return
	e.Outcome = outcome(err)
	if err != nil {
		e.Note = err.Error()
	}
	w := c.process.world
	w.add(e)
	if e.Outcome == history.Failed || errors.Is(err, driver.ErrWithdrawn) {
		w.violate("error", "%s of %s by %s: undocumented error: %v", e.Do, e.Name, e.Process, err)
	}
}

// outcome returns the kind of an error, and Failed for one that is of no
// documented kind, or of several.
func outcome(err error) history.Outcome {
	if err == nil {
		return history.OK
	}
	found := history.Failed
	kinds := 0
	for _, kind := range []struct {
		err     error
		outcome history.Outcome
	}{
		{holdfast.ErrHeld, history.Held}, {holdfast.ErrLost, history.LostLease},
		{holdfast.ErrUnreachable, history.Unreachable}, {holdfast.ErrClosed, history.Refused},
	} {
		if errors.Is(err, kind.err) {
			found = kind.outcome
			kinds++
		}
	}
	ended := errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
	switch {
	case kinds == 0 && ended:
		return history.Cancelled
	case kinds == 1:
		return found
	default:
		return history.Failed
	}
}
