package sim

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/holdfastlock/holdfast/driver"
)

// Store is what a simulated process needs of a store.
type Store interface {
	driver.Store
	driver.Queuer
	driver.Notifier
	driver.SlotKeeper
}

// line is the store as one process sees it, over a line on which requests and
// replies are lost, or so late that their caller has gone.
type line struct {
	Store   // answers what is not asked over the line
	process *process

	mu      sync.Mutex
	random  *rand.Rand
	loss    float64 // share of requests and replies that are lost
	late    time.Duration
	deaf    bool            // messages to waiters are lost
	waiters []chan struct{} // in the order of their coming: a map would have none
	inboxes []*inbox
}

var errDown = &driver.Error{Kind: driver.ErrUnreachable, Err: errors.New("the line is down")}

func newLine(p *process) *line {
	return &line{Store: p.world.store, process: p, random: p.world.newRandom()}
}

// Clock and Random are asked for by the seam.
func (l *line) Clock() (at time.Time, wall, boot time.Duration) { return l.process.clock() }

// Random returns a number from 0 to 1.
func (l *line) Random() float64 { return l.process.world.Random() }

// fate is what happens to one request and its reply.
type fate struct {
	requestLost, replyLost bool
	there, back            time.Duration
}

// draw draws a fate. No two trips take equally long, so that what happens does
// not depend on which goroutine the scheduler runs first.
func (l *line) draw() fate {
	l.mu.Lock()
	defer l.mu.Unlock()
	roll := l.random.Float64()
	trip := func() time.Duration {
		d := time.Duration(l.random.Int64N(int64(2 * time.Millisecond)))
		if l.late > 0 {
			d += time.Duration(l.random.Int64N(int64(l.late)))
		}
		return d
	}
	return fate{
		requestLost: roll < l.loss/2, replyLost: roll >= l.loss/2 && roll < l.loss,
		there: trip(), back: trip(),
	}
}

// worsen changes how bad the line is. A line that loses nothing any more is a new
// connection: those who wait are told, since they may have missed a release.
func (l *line) worsen(loss float64, late time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.loss, l.late = loss, late
	l.tellAll()
}

// deafen begins or ends to lose the messages to waiters.
func (l *line) deafen(deaf bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.deaf = deaf
	if !deaf {
		l.tellAll()
	}
}

// reconnect is what follows when the store is up again.
func (l *line) reconnect() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tellAll()
}

// tellAll tells the waiters that their subscriptions are active again. The caller
// holds the mutex.
func (l *line) tellAll() {
	if l.loss > 0 || l.deaf {
		return
	}
	for _, waiter := range l.waiters {
		tell(waiter)
	}
	for _, box := range l.inboxes {
		box.restored()
	}
}

// send has op carried out by the store, but the caller hears of it only over the
// line, and only while its process runs.
func send[T any](ctx context.Context, l *line, op func() (T, error)) (answer T, err error) {
	p := l.process
	p.gate()
	if p.isDead() || p.world.isDown() {
		return answer, errDown
	}
	if ctx.Err() != nil {
		return answer, driver.NoAnswer(ctx, ctx.Err())
	}
	fate := l.draw()
	if fate.requestLost {
		return answer, errDown
	}
	type reply struct {
		answer T
		err    error
	}
	arrived := make(chan reply, 1)
	p.world.underWay.Add(1)
	p.world.unheard.Add(1)
	p.world.requests.Go(func() {
		time.Sleep(fate.there)
		r := reply{err: errDown}
		if !p.world.isDown() {
			r.answer, r.err = op()
		}
		p.world.underWay.Add(-1)
		time.Sleep(fate.back)
		p.world.unheard.Add(-1)
		arrived <- r
	})
	r := reply{err: errDown}
	if !fate.replyLost { // else the connection broke; the request arrives all the same
		select {
		case <-ctx.Done():
			r.err = driver.NoAnswer(ctx, ctx.Err())
		case r = <-arrived:
		}
	}
	p.gate()
	if p.isDead() {
		return answer, errDown
	}
	return r.answer, r.err
}

// Acquire and the others go over the line.
func (l *line) Acquire(ctx context.Context, req driver.AcquireRequest) (driver.AcquireResult, error) {
	w := l.process.world
	result, err := send(ctx, l, func() (driver.AcquireResult, error) {
		result, err := l.Store.Acquire(context.Background(), req)
		w.stored(req, result)
		return result, err
	})
	l.compare(req, result)
	return result, err
}

// compare looks whether a token was told that it is in its own way.
func (l *line) compare(req driver.AcquireRequest, result driver.AcquireResult) {
	if len(result.State.Holders) > 0 && result.State.Holders[0].Token == req.Token {
		l.process.world.violate("own token", "%s was told that %s is held by its own token", l.process.name, req.Name)
	}
}

// Extend is one request, whatever the number of leases.
func (l *line) Extend(ctx context.Context, reqs []driver.ExtendRequest) []driver.ExtendResult {
	results, err := send(ctx, l, func() ([]driver.ExtendResult, error) {
		return l.Store.Extend(context.Background(), reqs), nil
	})
	if err != nil {
		results = make([]driver.ExtendResult, len(reqs))
		for i := range results {
			results[i].Err = err
		}
	}
	return results
}

// Release frees a name.
func (l *line) Release(ctx context.Context, req driver.ReleaseRequest) (driver.Answer, error) {
	return send(ctx, l, func() (driver.Answer, error) { return l.Store.Release(context.Background(), req) })
}

// InspectSlot reads a slot.
func (l *line) InspectSlot(ctx context.Context, job, slot string) (driver.Run, time.Time, error) {
	type answer struct {
		run driver.Run
		now time.Time
	}
	a, err := send(ctx, l, func() (a answer, err error) {
		a.run, a.now, err = l.Store.InspectSlot(context.Background(), job, slot)
		return a, err
	})
	return a.run, a.now, err
}

// BeginSlot begins a run.
func (l *line) BeginSlot(ctx context.Context, req driver.BeginRequest) (driver.BeginResult, error) {
	return send(ctx, l, func() (driver.BeginResult, error) { return l.Store.BeginSlot(context.Background(), req) })
}

// FinishSlot ends a run.
func (l *line) FinishSlot(ctx context.Context, req driver.FinishRequest) (driver.Answer, error) {
	return send(ctx, l, func() (driver.Answer, error) { return l.Store.FinishSlot(context.Background(), req) })
}

// Subscribe passes on what the store says while the line loses nothing.
func (l *line) Subscribe(name string) (wake <-chan struct{}, stop func()) {
	said, unsubscribe := l.Store.Subscribe(name)
	waiter, stopped := make(chan struct{}, 1), make(chan struct{})
	l.mu.Lock()
	l.waiters = append(l.waiters, waiter)
	l.mu.Unlock()
	l.process.work.Go(func() {
		for {
			select {
			case <-said:
				time.Sleep(l.draw().back)
				l.pass(waiter)
			case <-stopped:
				return
			}
		}
	})
	return waiter, func() {
		unsubscribe()
		close(stopped)
		l.mu.Lock()
		defer l.mu.Unlock()
		l.waiters = slices.DeleteFunc(l.waiters, func(other chan struct{}) bool { return other == waiter })
	}
}

func (l *line) pass(waiter chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.loss == 0 && !l.deaf && !l.process.world.isDown() {
		tell(waiter)
	}
}

func tell(waiter chan struct{}) {
	select {
	case waiter <- struct{}{}:
	default: // one value says as much as two
	}
}
