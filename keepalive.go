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

// add begins to keep a tenure, or says that the keeper is closed.
func (k *keeper) add(t *tenure, now instant) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return false
	}
	t.plan(now)
	heap.Push(&k.schedule, t)
	if !k.running {
		k.running = true
		k.last = now
		k.work.Go(k.run)
	}
	k.rearm(t)
	return true
}

// rearm wakes the goroutine if the tenure needs it before it wakes by itself.
func (k *keeper) rearm(t *tenure) {
	if t.due.Before(k.armed) || k.armed.IsZero() {
		select {
		case k.wake <- struct{}{}:
		default:
		}
	}
}

// end stops keeping the tenure of a lease that its holder releases. It says
// whether the lease was trusted until now.
func (k *keeper) end(l *Lease) (trusted bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if l.phase != held {
		return false
	}
	now := k.now()
	k.schedule.drop(l.tenure)
	l.stop(ended, now)
	return l.tenure.window.left(now) > 0
}

// standing returns how long a lease that is held is still trusted, or why it is
// not held.
func (k *keeper) standing(l *Lease) (time.Duration, error) {
	k.mu.Lock()
	now := k.now()
	left, is, why := l.tenure.window.left(now), l.phase, l.lost
	k.mu.Unlock()
	switch {
	case is == lost:
		return 0, why
	case is == ended:
		return 0, errReleased
	case left <= 0:
		return 0, k.lose(l, l.tenure.whyOver(now))
	}
	return left, nil
}

// lose ends a lease that can't be trusted any more, once.
func (k *keeper) lose(l *Lease, reason LostReason) *LostError {
	k.mu.Lock()
	first := k.markLost(l, reason)
	k.mu.Unlock()
	if first {
		k.announceLoss(l)
	}
	return l.lost
}

// loseTenure ends whichever lease has the tenure.
func (k *keeper) loseTenure(t *tenure, reason LostReason) error {
	k.mu.Lock()
	l := t.lease
	if l == nil {
		k.mu.Unlock()
		return errReleased
	}
	k.markLost(l, reason)
	k.mu.Unlock()
	k.announceLoss(l)
	return l.lost
}

// markLost says whether the lease was not lost before. Locked by the mutex.
func (k *keeper) markLost(l *Lease, reason LostReason) (first bool) {
	if l.lost != nil {
		return false
	}
	t := l.tenure
	l.lost = &LostError{Name: t.name, Fence: l.fence, Reason: reason}
	switch reason {
	case LostExpired:
		l.lost.Err = t.failure
	case LostGone:
		l.lost.Err = t.why
	default: // the reason says it all
	}
	if l.phase == held {
		k.schedule.drop(t)
		l.stop(lost, k.now())
	}
	l.phase = lost
	return true
}

func (k *keeper) announceLoss(l *Lease) {
	l.endContext(l.lost)
	emit(k.events.Lost, Event{Name: l.tenure.name, Fence: l.fence, Err: l.lost})
	l.tenure.locker.queues.freed(l.tenure, false)
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

	for _, t := range over {
		_ = k.loseTenure(t, t.whyOver(now))
	}
	if len(due) > 0 {
		k.work.Go(func() { k.renew(due) })
	}
	return wait
}

// renew extends tenures in one call. It takes no longer than half of what is
// left of the one that ends first: late success is no success.
func (k *keeper) renew(due []*tenure) {
	sent := k.now()
	limit := k.timeout
	requests := make([]driver.ExtendRequest, len(due))
	k.mu.Lock()
	for i, t := range due {
		requests[i] = driver.ExtendRequest{Name: t.name, Token: t.token, TTL: t.settings.kept()}
		limit = min(limit, share(t.window.left(sent), patience))
	}
	k.mu.Unlock()

	ctx, cancel := context.WithTimeout(k.ctx, limit)
	defer cancel()
	for i, result := range k.store.Extend(ctx, requests) {
		// A failure is an event, and tried again: it is not a loss.
		_ = k.settle(due[i], sent, due[i].settings.ttl, result)
	}
}

// settle takes the answer to an extension by ttl that was sent at sent: for the
// tenure, whichever lease has it now. The deadline moves only forward, and only
// before it has passed.
func (k *keeper) settle(t *tenure, sent instant, ttl time.Duration, result driver.ExtendResult) error {
	k.mu.Lock()
	now := k.now()
	t.sending = false
	switch {
	case t.lease == nil:
		k.mu.Unlock()
		return errReleased
	case t.window.left(now) <= 0:
		t.failure = result.Err
		k.mu.Unlock()
		return k.loseTenure(t, t.whyOver(now))
	case result.Err != nil:
		t.failure = result.Err
		t.planRetry(now)
	case result.Answer == driver.Mine:
		t.failure = nil
		t.window = t.window.later(t.limited(newWindow(sent, ttl)), now)
		t.plan(now)
	default:
		t.why = result.Why
		k.mu.Unlock()
		return k.loseTenure(t, reasonOf(result.Answer))
	}
	heap.Fix(&k.schedule, t.index)
	k.rearm(t)
	event := Event{Name: t.name, Fence: t.lease.fence, Deadline: t.window.deadline(), Took: now.since(sent), Err: result.Err}
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

// close takes no more tenures, and returns the leases that are held.
func (k *keeper) close() []*Lease {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.closed = true
	leases := make([]*Lease, len(k.schedule))
	for i, t := range k.schedule {
		leases[i] = t.lease
	}
	return leases
}
