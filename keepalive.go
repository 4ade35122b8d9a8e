package holdfast

import (
	"container/heap"
	"context"
	"sync"
	"time"

	"github.com/holdfastlock/holdfast/driver"
)

// How leases are renewed.
const (
	// renewAfter is the share of the TTL after which a lease is renewed: early
	// enough that the renewal may fail a few times.
	renewAfter = 1.0 / 3
	// renewJitter is the share of that time by which a renewal may come sooner,
	// so that leases taken together do not stay together.
	renewJitter = 0.1
	// batchShare is the share of its TTL by which a lease may be renewed sooner
	// to go along with others in one call.
	batchShare = 1.0 / 30
	// checkEvery is the longest time between two looks at the clocks while
	// leases are held: timers stand still while the machine is suspended.
	checkEvery = time.Second
	// clockTolerance is by how much clocks may disagree between two looks before
	// everything is renewed at once.
	clockTolerance = time.Second
	// A renewal that failed is tried again after an eighth of what is left,
	// within these bounds.
	retryShare   = 1.0 / 8
	retrySoonest = 20 * time.Millisecond
	retrySlowest = time.Second
	// patience is the share of what is left that one renewal may take.
	patience = 1.0 / 2
	// idleTurn is how long the goroutine sleeps when nothing is held.
	idleTurn = time.Hour
)

// keeper keeps every lease of one Locker alive, and ends those that can't be
// trusted any more: one goroutine, whatever the number of leases, and one more
// for each call to the store that is under way.
type keeper struct {
	store   driver.Store
	now     clock
	events  *Events
	timeout time.Duration   // longest time one renewal may take
	ctx     context.Context // ends the goroutine and the calls under way
	wake    chan struct{}
	work    sync.WaitGroup

	mu       sync.Mutex
	schedule schedule
	last     instant   // when the clocks were last looked at
	armed    time.Time // when the goroutine wakes by itself
	running  bool
	closed   bool
}

func newKeeper(ctx context.Context, store driver.Store, now clock, timeout time.Duration, events *Events) *keeper {
	return &keeper{ctx: ctx, store: store, now: now, timeout: timeout, events: events, wake: make(chan struct{}, 1)}
}

// add begins to keep a lease, or says that the keeper is closed.
func (k *keeper) add(l *Lease, now instant) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return false
	}
	l.plan(now)
	heap.Push(&k.schedule, l)
	if !k.running {
		k.running = true
		k.last = now
		k.work.Go(k.run)
	}
	k.rearm(l)
	return true
}

// rearm wakes the goroutine if the lease needs it before it wakes by itself.
func (k *keeper) rearm(l *Lease) {
	if l.due.Before(k.armed) || k.armed.IsZero() {
		select {
		case k.wake <- struct{}{}:
		default:
		}
	}
}

// end stops keeping a lease that its holder releases. It says whether the lease
// was trusted until now, and how long it was held; both only the first time.
func (k *keeper) end(l *Lease) (trusted bool, took time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if l.phase != held {
		return false, 0
	}
	l.phase = ended
	k.schedule.drop(l)
	now := k.now()
	return l.window.left(now) > 0, now.since(l.granted)
}

// standing returns how long a lease that is held is still trusted, or why it is
// not held.
func (k *keeper) standing(l *Lease) (time.Duration, error) {
	k.mu.Lock()
	now := k.now()
	left, is, why := l.window.left(now), l.phase, l.lost
	k.mu.Unlock()
	switch {
	case is == lost:
		return 0, why
	case is == ended:
		return 0, errReleased
	case left <= 0:
		return 0, k.lose(l, l.whyOver(now))
	}
	return left, nil
}

// lose ends a lease that can't be trusted any more, once.
func (k *keeper) lose(l *Lease, reason LostReason) *LostError {
	k.mu.Lock()
	if l.lost != nil {
		defer k.mu.Unlock()
		return l.lost
	}
	l.lost = &LostError{Name: l.name, Fence: l.fence, Reason: reason}
	if reason == LostExpired {
		l.lost.Err = l.failure
	}
	l.phase = lost
	k.schedule.drop(l)
	k.mu.Unlock()

	l.cancel(l.lost)
	emit(k.events.Lost, Event{Name: l.name, Fence: l.fence, Err: l.lost})
	return l.lost
}

// run is the goroutine.
func (k *keeper) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		timer.Reset(k.turn())
		select {
		case <-k.ctx.Done():
			return
		case <-k.wake:
		case <-timer.C:
		}
	}
}

// turn does what is due and returns how long there is nothing to do.
func (k *keeper) turn() time.Duration {
	k.mu.Lock()
	now := k.now()
	if now.jumped(k.last, clockTolerance) {
		k.schedule.hurry(now)
	}
	k.last = now
	over, due := k.schedule.step(now)
	wait := k.schedule.idle(now)
	k.armed = now.at.Add(wait)
	k.mu.Unlock()

	for _, l := range over {
		k.lose(l, l.whyOver(now))
	}
	if len(due) > 0 {
		k.work.Go(func() { k.renew(due) })
	}
	return wait
}

// renew extends leases in one call. It takes no longer than half of what is
// left of the one that ends first: late success is no success.
func (k *keeper) renew(due []*Lease) {
	sent := k.now()
	limit := k.timeout
	requests := make([]driver.ExtendRequest, len(due))
	k.mu.Lock()
	for i, l := range due {
		requests[i] = driver.ExtendRequest{Name: l.name, Token: l.token, TTL: l.settings.kept()}
		limit = min(limit, share(l.window.left(sent), patience))
	}
	k.mu.Unlock()

	ctx, cancel := context.WithTimeout(k.ctx, limit)
	defer cancel()
	for i, result := range k.store.Extend(ctx, requests) {
		// A failure is an event, and tried again: it is not a loss.
		_ = k.settle(due[i], sent, due[i].settings.ttl, result)
	}
}

// settle takes the answer to an extension by ttl that was sent at sent. The
// deadline moves only forward, and only before it has passed.
func (k *keeper) settle(l *Lease, sent instant, ttl time.Duration, result driver.ExtendResult) error {
	k.mu.Lock()
	now := k.now()
	l.sending = false
	switch {
	case l.phase == lost:
		defer k.mu.Unlock()
		return l.lost
	case l.phase == ended:
		k.mu.Unlock()
		return errReleased
	case l.window.left(now) <= 0:
		l.failure = result.Err
		k.mu.Unlock()
		return k.lose(l, l.whyOver(now))
	case result.Err != nil:
		l.failure = result.Err
		l.planRetry(now)
	case result.Answer == driver.Mine:
		l.failure = nil
		l.window = l.window.later(l.limited(newWindow(sent, ttl)), now)
		l.plan(now)
	default:
		k.mu.Unlock()
		return k.lose(l, reasonOf(result.Answer))
	}
	heap.Fix(&k.schedule, l.index)
	k.rearm(l)
	event := Event{Name: l.name, Fence: l.fence, Deadline: l.window.deadline(), Took: now.since(sent), Err: result.Err}
	k.mu.Unlock()

	if result.Err != nil {
		emit(k.events.ExtendFailed, event)
		return result.Err
	}
	emit(k.events.Extended, event)
	return nil
}

func reasonOf(answer driver.Answer) LostReason {
	if answer == driver.Taken {
		return LostTaken
	}
	return LostGone
}

// close takes no more leases and returns those that are held.
func (k *keeper) close() []*Lease {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.closed = true
	return append([]*Lease(nil), k.schedule...)
}
