package holdfast

import (
	"context"
	"errors"
	"math"
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
	// In a queue of the store: in case that a hand-off was lost, or that those
	// before have died.
	longestPoll = time.Minute
	// afterBefore is how much later those behind the first ask, for each that is
	// before them, so that they do not ask all at once; up to mostBefore of them.
	afterBefore = 20 * time.Millisecond
	mostBefore  = 100
	// afterClaim is the same for the question whether one before has died: of n
	// waiters two or three ask within its time for each doubling of n.
	afterClaim = time.Second
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

// nextAsk returns how long a call waits in the store's queue for a hand-off
// before it asks by itself: the first when the holder's time is over, the others
// when the first must have had its chance; and these also when those before may
// have been handed the name, and are dead: nobody is told of that.
func nextAsk(tries int, holder Holder, before int) time.Duration {
	switch {
	case before == 0 && holder.Foreign():
		return nextPoll(tries, holder, false)
	case holder.Left < 0:
		return jitter(longestPoll)
	case before == 0:
		return min(holder.Left+jitter(expirySlack), longestPoll)
	default:
		late := min(holder.Left+jitter(forEach(before, afterBefore)), jitter(forEach(before, afterClaim)))
		return min(driver.Claim+late, longestPoll)
	}
}

// forEach returns d for each of those before, up to mostBefore.
func forEach(before int, d time.Duration) time.Duration {
	return time.Duration(min(before, mostBefore)) * d
}

// inTurn queues in memory behind the other calls of this process that want the
// name, until one of them passes its tenure on, or as the head of the queue asks
// the store and waits for it.
func (a *acquisition) inTurn(ctx context.Context) (*Lease, error) {
	place, head := a.locker.queues.join(a)
	defer a.giveUpRelay() // after the place: then none can come any more
	defer place.leave()
	var holder *HeldError
	if head {
		if a.locker.inbox.listens() && a.settings.fence {
			a.enroll(place.queue)
		}
		lease, err := a.ask(ctx, a.locker.config.StoreTimeout)
		held, is := errors.AsType[*HeldError](err)
		if !is {
			return lease, err
		}
		holder = held
	}
	a.emitWaiting(holder)
	if head {
		return a.waitAsHead(ctx, place.queue, holder)
	}
	over, stop := a.waitLimit()
	defer stop()
	select {
	case lease := <-place.turn:
		if lease == nil {
			return a.waitAsHead(ctx, place.queue, nil)
		}
		place.taken = true
		a.emitAcquired(lease, lease.Deadline(), a.locker.now())
		return lease, nil
	case <-ctx.Done():
	case <-a.locker.closing.Done():
	case <-over:
		return nil, a.heldBy(State{Holders: []Holder{place.queue.holder()}})
	}
	return nil, a.gaveUp(ctx, place.queue.holder())
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
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(a.locker.closing, cancel)()
	if !a.queued && a.enroll(q) {
		holder = nil // take a place before the first pause
	}
	for tries := 1; ; tries++ {
		if holder != nil {
			q.saw(holder.Holder)
			left := a.waitLeft()
			if left <= 0 {
				return nil, a.heldBy(State{Holders: []Holder{holder.Holder}})
			}
			q.pause(ctx, min(a.pauseFor(tries, q, holder.Holder), left))
		}
		if ctx.Err() != nil {
			return nil, a.gaveUp(ctx, q.holder())
		}
		lease, err := a.ask(ctx, a.askLimit())
		held, is := errors.AsType[*HeldError](err)
		if !is {
			return lease, err
		}
		holder = held
	}
}

// enroll has the next request ask for a place in the store's queue, if it keeps
// one. Before that the token is expected: a hand-off may come before the answer.
func (a *acquisition) enroll(q *queue) bool {
	a.identify()
	a.queued = a.locker.inbox.expect(q.name, a.request.Token, q.local)
	return a.queued
}

// pauseFor returns how long to wait for a sign before the next question.
func (a *acquisition) pauseFor(tries int, q *queue, holder Holder) time.Duration {
	if !a.queued {
		return nextPoll(tries, holder, q.live)
	}
	if !a.locker.inbox.listens() {
		return nextPoll(tries, holder, false)
	}
	return nextAsk(tries, holder, a.before)
}

// giveUpRelay leaves a release that did not reach the store to whoever waits for
// it.
func (a *acquisition) giveUpRelay() {
	if a.relay != nil {
		a.relay.heard(0)
		a.relay = nil
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
