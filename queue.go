package holdfast

import (
	"container/list"
	"context"
	"sync"
	"time"

	"github.com/holdfastlock/holdfast/driver"
)

// queues has a queue for each name that calls of this process wait for, or that
// a lease of it holds. Only the head of a queue talks to the store.
type queues struct {
	notifier driver.Notifier // nil if the store has none, or hands names on

	mu     sync.Mutex
	byName map[string]*queue
	spare  []*queue // to be used again
}

// maxSpare is how many queues are kept to be used again.
const maxSpare = 64

func newQueues(store driver.Store) *queues {
	qs := &queues{byName: make(map[string]*queue)}
	if _, queues := store.(driver.Queuer); !queues {
		qs.notifier, _ = store.(driver.Notifier)
	}
	return qs
}

// queue is the calls that wait for one name, first in first out.
type queue struct {
	queues *queues
	name   string
	local  chan struct{} // the name may have come free by an act of this process

	// Guarded by queues.mu.
	places list.List // of *place
	tenure *tenure   // by which this process holds the name
	last   Holder    // who was last seen to hold the name

	// Only the head uses what follows, and whoever leaves the queue empty.
	notified <-chan struct{}
	stop     func()
	live     bool // notifications come
}

// place is one call's place in a queue.
type place struct {
	queue       *queue
	acquisition *acquisition
	element     *list.Element
	// turn receives the lease that is passed on to the call, or nil when the
	// call has become the head. The head's is nil if it was so from the start.
	turn  chan *Lease
	taken bool // the call has received a lease

	// Guarded by queues.mu.
	head bool // the first in the queue of a name that this process does not hold
	gone bool // out of the queue
}

// of returns the queue of a name, new if there is none. Locked by mu.
func (qs *queues) of(name string) *queue {
	q := qs.byName[name]
	if q != nil {
		return q
	}
	if last := len(qs.spare) - 1; last >= 0 {
		q, qs.spare = qs.spare[last], qs.spare[:last]
	} else {
		q = &queue{queues: qs, local: make(chan struct{}, 1)}
	}
	q.name = name
	qs.byName[name] = q
	return q
}

// drop forgets a queue in which nobody is. Locked by mu.
func (qs *queues) drop(q *queue) {
	delete(qs.byName, q.name)
	if len(qs.spare) == maxSpare || q.stop != nil { // whoever leaves will stop it
		return
	}
	select {
	case <-q.local:
	default:
	}
	*q = queue{queues: qs, local: q.local}
	qs.spare = append(qs.spare, q)
}

// took notes that this process holds the name.
func (qs *queues) took(t *tenure) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	qs.of(t.name).tenure = t
}

// freed notes that this process does not hold the name by this tenure any more.
// A head that asked before is told, unless the store has answered it since.
func (qs *queues) freed(t *tenure, answered bool) {
	t.locker.inbox.forget(t.token)
	qs.mu.Lock()
	defer qs.mu.Unlock()
	q := qs.byName[t.name]
	if q == nil {
		return
	}
	if q.tenure == t {
		q.tenure = nil
	}
	if !answered {
		q.hintHead()
	}
	q.proceed()
}

// hintHead tells the call that asks the store, if there is one: a hint that
// nobody takes would make the next head ask without need. Locked by mu.
func (q *queue) hintHead() {
	if first := q.first(); first != nil && first.head {
		hint(q.local)
	}
}

// wake tells the head of the name's queue that the name may be free.
func (qs *queues) wake(name string) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	if q := qs.byName[name]; q != nil {
		q.hintHead()
	}
}

// hint leaves a value in the channel, unless one is there that was not read.
func hint(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// proceed makes the first call the head, if this process does not hold the name,
// and forgets a queue of nothing. Locked by mu.
func (q *queue) proceed() {
	first := q.first()
	switch {
	case q.tenure != nil:
	case first == nil:
		q.queues.drop(q)
	case !first.head:
		first.head = true
		first.turn <- nil
	}
}

// first returns the first place, or nil. Locked by mu.
func (q *queue) first() *place {
	if front := q.places.Front(); front != nil {
		return front.Value.(*place)
	}
	return nil
}

// join takes a place at the end of the name's queue. It says whether the call is
// the head at once.
func (qs *queues) join(a *acquisition) (p *place, head bool) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	q := qs.of(a.request.Name)
	p = &a.place
	p.queue, p.acquisition = q, a
	p.head = q.places.Len() == 0 && q.tenure == nil
	if !p.head {
		p.turn = make(chan *Lease, 1)
	}
	p.element = q.places.PushBack(p)
	return p, p.head
}

// leave gives up the place; the next call becomes the head if this one was. A
// lease that was passed on to the call in its last moment is released.
func (p *place) leave() {
	q := p.queue
	q.queues.mu.Lock()
	passed := p.gone
	if !passed {
		q.remove(p)
	}
	var stop func()
	if q.places.Len() == 0 {
		stop, q.stop, q.live = q.stop, nil, false
	}
	if !passed { // else it may be another's queue by now
		q.proceed()
	}
	q.queues.mu.Unlock()
	if stop != nil {
		stop()
	}
	if passed && !p.taken {
		lease := <-p.turn
		_ = lease.Release(context.Background()) // its failure is an event
	}
}

// remove takes a place out. Locked by mu.
func (q *queue) remove(p *place) {
	p.gone = true
	q.places.Remove(p.element)
}

// pass gives the tenure of a lease that is released to the first call in its
// name's queue, if that one waits in memory and wants the same. It ends the
// lease first.
func (qs *queues) pass(l *Lease) bool {
	p, next := qs.successor(l)
	if next == nil {
		return false
	}
	l.endContext(errReleased)
	l.emitReleased()
	p.turn <- next
	return true
}

// relay makes the first call of the name's queue tell the store that the tenure
// has ended, if that call waits in memory and the store keeps a queue: release
// and enqueue are one step then. Otherwise it returns nil.
func (qs *queues) relay(t *tenure) *relay {
	if t.locker.inbox.queuer == nil || t.doubtful {
		return nil
	}
	qs.mu.Lock()
	defer qs.mu.Unlock()
	q := qs.byName[t.name]
	if q == nil || q.tenure != t {
		return nil
	}
	p := q.first()
	if p == nil || p.head {
		return nil
	}
	r := &relay{token: t.token, done: make(chan struct{})}
	p.acquisition.relay = r
	q.tenure = nil
	q.proceed()
	return r
}

// successor takes the first call out of the queue and returns its lease, or nil.
func (qs *queues) successor(l *Lease) (*place, *Lease) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	t := l.tenure
	q := qs.byName[t.name]
	if q == nil || q.tenure != t {
		return nil, nil
	}
	p := q.first()
	if p == nil || p.head || !p.acquisition.settings.same(t.settings) {
		return nil, nil
	}
	next := t.locker.keeper.pass(l, p.acquisition)
	if next != nil {
		q.remove(p)
	}
	return p, next
}

// saw notes who holds the name, for the calls behind the head.
func (q *queue) saw(holder Holder) {
	q.queues.mu.Lock()
	defer q.queues.mu.Unlock()
	q.last = holder
}

// holder returns who holds the name, as far as is known here.
func (q *queue) holder() Holder {
	q.queues.mu.Lock()
	defer q.queues.mu.Unlock()
	if q.tenure != nil {
		return q.tenure.holder()
	}
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
