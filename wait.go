package holdfast

import (
	"container/list"
	"context"
	"errors"
	"math"
	"sync"
	"time"

	"github.com/holdfastlock/holdfast/driver"
)

// How often the head of a queue asks the store by itself.
const (
	// Without notification, or while another program holds the lock, which
	// notifies nobody: from firstPoll, doubling, to slowestPoll.
	firstPoll   = 10 * time.Millisecond
	slowestPoll = 250 * time.Millisecond
	// With notification: in case that a message was lost.
	safetyPoll = 5 * time.Second
	// After the holder's time in the store is over: its key is gone then, not
	// just about to go.
	expirySlack = 10 * time.Millisecond
	// lastAsk is the least time that a question may take, however little of
	// the wait is left.
	lastAsk = 500 * time.Millisecond
	noLimit = time.Duration(math.MaxInt64)
)

// nextPoll returns how long the head waits for a notification before it asks
// again. Tries counts the questions that were answered so far, from 1; live says
// that releases are notified.
func nextPoll(tries int, holder Holder, live bool) time.Duration {
	poll := slowestPoll
	switch {
	case live && !holder.Foreign():
		poll = safetyPoll
	case tries < 6: // 10 ms << 5 is more than slowestPoll
		poll = min(firstPoll<<max(tries-1, 0), slowestPoll)
	}
	poll = jitter(poll)
	if holder.Left >= 0 {
		poll = min(poll, holder.Left+jitter(expirySlack))
	}
	return poll
}

// inTurn queues in memory behind the other calls of this process that want the
// name, and as the head of the queue asks the store and waits for it.
func (a *acquisition) inTurn(ctx context.Context) (*Lease, error) {
	place := a.locker.queues.join(a.request.Name)
	defer place.leave()
	var holder *HeldError
	if place.isHead() {
		lease, err := a.ask(ctx, a.locker.config.StoreTimeout)
		if !errors.As(err, &holder) {
			return lease, err
		}
	}
	a.emitWaiting(holder)

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(a.locker.closing, cancel)()
	over, stop := a.waitLimit()
	defer stop()
	select {
	case <-place.turn:
		return a.waitAsHead(ctx, place.queue, holder)
	case <-ctx.Done():
		return nil, a.gaveUp(ctx, place.queue.holder())
	case <-over:
		return nil, a.heldBy(State{Holders: []Holder{place.queue.holder()}})
	}
}

func (a *acquisition) emitWaiting(holder *HeldError) {
	event := Event{Name: a.request.Name}
	if holder != nil {
		event.Err = holder
	}
	emit(a.locker.config.Events.Waiting, event)
}

// waitAsHead asks the store until the name is free, pausing first if it has
// already said who holds it.
func (a *acquisition) waitAsHead(ctx context.Context, q *queue, holder *HeldError) (*Lease, error) {
	for tries := 1; ; tries++ {
		if holder != nil {
			q.saw(holder.Holder)
			left := a.waitLeft()
			if left <= 0 {
				return nil, a.heldBy(State{Holders: []Holder{holder.Holder}})
			}
			q.pause(ctx, min(nextPoll(tries, holder.Holder, q.live), left))
		}
		if ctx.Err() != nil {
			return nil, a.gaveUp(ctx, q.holder())
		}
		lease, err := a.ask(ctx, a.askLimit())
		if !errors.As(err, &holder) {
			return lease, err
		}
	}
}

// waitLimit returns a channel that receives when WithMaxWait is over.
func (a *acquisition) waitLimit() (<-chan time.Time, func() bool) {
	if a.settings.maxWait < 0 {
		return nil, func() bool { return false }
	}
	timer := time.NewTimer(a.waitLeft())
	return timer.C, timer.Stop
}

// waitLeft returns what is left of WithMaxWait.
func (a *acquisition) waitLeft() time.Duration {
	if a.settings.maxWait < 0 {
		return noLimit
	}
	return a.settings.maxWait - a.waited()
}

// askLimit returns how long one question of a waiter may go on.
func (a *acquisition) askLimit() time.Duration {
	return min(a.locker.config.StoreTimeout, max(a.waitLeft(), lastAsk))
}

// queues has a queue for each name that calls of this process wait for. Only
// the head of a queue talks to the store.
type queues struct {
	notifier driver.Notifier // nil if the store has none

	mu     sync.Mutex
	byName map[string]*queue
}

func newQueues(store driver.Store) *queues {
	notifier, _ := store.(driver.Notifier)
	return &queues{notifier: notifier, byName: make(map[string]*queue)}
}

// queue is the calls that wait for one name, first in first out.
type queue struct {
	queues *queues
	name   string
	places list.List     // of *place; guarded by queues.mu
	local  chan struct{} // a lease of this process was released
	last   Holder        // who was last seen to hold the name; guarded by queues.mu

	// Only the head uses what follows.
	notified <-chan struct{}
	stop     func()
	live     bool // notifications come
}

// place is one call's place in a queue.
type place struct {
	queue   *queue
	element *list.Element
	turn    chan struct{} // closed when the call is the head
}

// wake tells the head of the name's queue that the name may be free.
func (qs *queues) wake(name string) {
	qs.mu.Lock()
	q := qs.byName[name]
	qs.mu.Unlock()
	if q != nil {
		select {
		case q.local <- struct{}{}:
		default:
		}
	}
}

// atOnce is the turn of a call that finds nobody before it.
var atOnce = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// join takes a place at the end of the name's queue.
func (qs *queues) join(name string) *place {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	q := qs.byName[name]
	if q == nil {
		q = &queue{queues: qs, name: name, local: make(chan struct{}, 1)}
		qs.byName[name] = q
	}
	p := &place{queue: q, turn: atOnce}
	if q.places.Len() > 0 {
		p.turn = make(chan struct{})
	}
	p.element = q.places.PushBack(p)
	return p
}

func (p *place) isHead() bool {
	select {
	case <-p.turn:
		return true
	default:
		return false
	}
}

// leave gives up the place; the next call becomes the head if this one was.
func (p *place) leave() {
	q := p.queue
	q.queues.mu.Lock()
	wasHead := q.places.Front() == p.element
	q.places.Remove(p.element)
	empty := q.places.Len() == 0
	switch {
	case empty:
		delete(q.queues.byName, q.name)
	case wasHead:
		close(q.places.Front().Value.(*place).turn)
	}
	q.queues.mu.Unlock()
	if empty && q.stop != nil {
		q.stop()
	}
}

// saw notes who holds the name, for the calls behind the head.
func (q *queue) saw(holder Holder) {
	q.queues.mu.Lock()
	defer q.queues.mu.Unlock()
	q.last = holder
}

func (q *queue) holder() Holder {
	q.queues.mu.Lock()
	defer q.queues.mu.Unlock()
	return q.last
}

// pause returns when the name may have become free, after d at the latest, and
// when ctx ends. It subscribes when it is first called; the subscription tells
// when it has begun, so that a release just before is not missed.
func (q *queue) pause(ctx context.Context, d time.Duration) {
	if q.stop == nil && q.queues.notifier != nil {
		q.notified, q.stop = q.queues.notifier.Subscribe(q.name)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-q.notified:
		q.live = true
	case <-q.local:
	case <-timer.C:
	case <-ctx.Done():
	}
}
