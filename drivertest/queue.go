package drivertest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/holdfastlock/holdfast/driver"
)

// forQueues returns the part that is run where the store keeps waiters in a
// queue, and says so where it does not.
func forQueues(check func(t *queueTrial)) func(t *trial) {
	return func(t *trial) {
		a, ok := t.a.(driver.Queuer)
		if !ok {
			t.Log("left out: this store keeps no queue")
			return
		}
		q := &queueTrial{trial: t, a: a, b: t.b.(driver.Queuer)}
		_, err := a.Enqueue(t.in(), q.ask("probe", "nobody"))
		if errors.Is(err, driver.ErrUnsupported) {
			t.Logf("left out: this store keeps no queue as it is set up here: %v", err)
			return
		}
		check(q)
	}
}

// queueTrial is a trial with two handles onto one store that keeps waiters in a
// queue.
type queueTrial struct {
	*trial
	a, b driver.Queuer
}

// box is an inbox, and what arrived in it.
type box struct {
	driver.Inbox
	handed   chan driver.HandOff
	restored chan struct{}
}

// open returns an inbox that listens.
func (t *queueTrial) open(q driver.Queuer) *box {
	t.Helper()
	b := &box{handed: make(chan driver.HandOff, 100), restored: make(chan struct{}, 100)}
	b.Inbox = q.OpenInbox(driver.Listener{
		Handed: func(h driver.HandOff) {
			if h.Token != "" { // else no more than a reason to ask
				b.handed <- h
			}
		},
		Restored: func() { b.restored <- struct{}{} },
	})
	t.Cleanup(b.Close)
	if !t.woken(b.restored, "the inbox listens") {
		t.FailNow()
	}
	return b
}

// ask returns a request for the name and a place, with a fresh token.
func (t *queueTrial) ask(name, inbox string) driver.QueueRequest {
	return driver.QueueRequest{AcquireRequest: request(name), Inbox: inbox, Keep: whole}
}

func (t *queueTrial) enqueue(q driver.Queuer, req driver.QueueRequest) driver.QueueResult {
	t.Helper()
	result, err := q.Enqueue(t.in(), req)
	if err != nil {
		t.Fatalf("Enqueue %q: %v", req.Name, err)
	}
	return result
}

// claim must be granted; it returns the fence.
func (t *queueTrial) claim(q driver.Queuer, req driver.QueueRequest) int64 {
	t.Helper()
	result := t.enqueue(q, req)
	if !result.Granted {
		t.Fatalf("Enqueue %q was not granted: %+v", req.Name, result)
	}
	return result.Fence
}

// queued must not be granted, with so many before it.
func (t *queueTrial) queued(q driver.Queuer, req driver.QueueRequest, before int) driver.QueueResult {
	t.Helper()
	result := t.enqueue(q, req)
	if result.Granted || result.Fence != 0 || result.Before != before {
		t.Fatalf("Enqueue %q: %+v, want no grant and %d before", req.Name, result, before)
	}
	return result
}

// line has the name held by a token, and n waiters behind it, by turns in the
// two inboxes.
func (t *queueTrial) line(name string, boxes [2]*box, n int) (held driver.AcquireRequest, waiters []driver.QueueRequest) {
	t.Helper()
	held = request(name)
	t.acquire(t.trial.a, held)
	for i := range n {
		req := t.ask(name, boxes[i%2].Address())
		t.queued(t.handle(i), req, i)
		waiters = append(waiters, req)
	}
	return held, waiters
}

func (t *queueTrial) boxes() [2]*box { return [2]*box{t.open(t.a), t.open(t.b)} }

// handle returns the two in turn.
func (t *queueTrial) handle(i int) driver.Queuer {
	if i%2 == 0 {
		return t.a
	}
	return t.b
}

// turn checks that the inbox is told that it is the waiter's turn, and nothing
// else before, and that the name is kept for it.
func (t *queueTrial) turn(b *box, req driver.QueueRequest) {
	t.Helper()
	select {
	case got := <-b.handed:
		if want := (driver.HandOff{Name: req.Name, Token: req.Token}); got != want {
			t.Fatalf("the inbox was told %+v, want %+v", got, want)
		}
	case <-time.After(patience):
		t.Fatalf("the inbox was told nothing in %v", patience)
	}
	t.heldBy(req.AcquireRequest)
}

// leave gives up what the waiter has: its place or the name.
func (t *queueTrial) leave(req driver.QueueRequest, want driver.Answer) {
	t.Helper()
	t.releaseWith(t.trial.b, driver.ReleaseRequest{Name: req.Name, Token: req.Token, Inbox: req.Inbox}, want)
}

// silent checks that the inboxes were told nothing. It is called after another
// message, or where nobody was to be told at all.
func (t *queueTrial) silent(boxes [2]*box) {
	t.Helper()
	for _, b := range boxes {
		select {
		case got := <-b.handed:
			t.Errorf("an inbox was told %+v, want nothing", got)
		default:
		}
	}
}

// orphaned returns a waiter for a name whose holder has ended without a release.
// The inbox is of the handle a.
func (t *queueTrial) orphaned(b *box) driver.QueueRequest {
	t.Helper()
	for ttl := t.span(); ; ttl *= 2 { // on a slow machine it ends before the waiter comes
		held, waiter := request("orphaned"), t.ask("orphaned", b.Address())
		held.TTL, waiter.Keep = ttl, 100*ttl
		t.acquire(t.trial.a, held)
		if t.enqueue(t.a, waiter).Granted {
			t.leave(waiter, driver.Mine)
			continue
		}
		t.pass(ttl)
		t.eventually("the name is free", func() bool {
			t.Helper()
			return len(t.inspect(t.trial.b, held.Name).Holders) == 0
		})
		return waiter
	}
}

func waitersAreServedInTheirOrder(t *queueTrial) {
	boxes := t.boxes()
	held, waiters := t.line("order", boxes, 5)
	t.release(t.trial.b, held, driver.Mine)
	for i, req := range waiters {
		t.turn(boxes[i%2], req)
		t.claim(t.handle(i), req)
		t.leave(req, driver.Mine)
	}
	t.free(held.Name)
	t.silent(boxes)
}

// waitersNeedNoClock has waiters that ask again only when their inbox is told.
func waitersNeedNoClock(t *queueTrial) {
	const waiters, turns = 6, 5
	var all sync.WaitGroup
	inside := make(chan int64, 1)
	inside <- 0 // the last fence; absent while somebody is inside
	for i := range waiters {
		b := t.open(t.handle(i))
		all.Go(func() {
			for range turns {
				if !t.serve(t.handle(i), b, inside) {
					return
				}
			}
		})
	}
	all.Wait()
}

// serve waits for its turn, is inside alone, and leaves. It may be called on any
// goroutine.
func (t *queueTrial) serve(q driver.Queuer, b *box, inside chan int64) bool {
	req := t.ask("no clock", b.Address())
	for {
		result, err := q.Enqueue(t.in(), req)
		if err != nil {
			t.Errorf("Enqueue: %v", err)
			return false
		}
		if !result.Granted {
			select {
			case <-b.handed:
				continue
			case <-time.After(patience):
				t.Errorf("not told in %v", patience)
				return false
			}
		}
		select {
		case last := <-inside:
			if result.Fence <= last {
				t.Errorf("fence %d was granted after %d", result.Fence, last)
			}
			time.Sleep(time.Millisecond) // time for others to come, and to wait
			inside <- result.Fence
		default:
			t.Error("two are inside")
		}
		answer, err := q.(driver.Store).Release(t.in(), driver.ReleaseRequest{Name: req.Name, Token: req.Token, Inbox: req.Inbox})
		if err != nil || answer != driver.Mine {
			t.Errorf("Release answered %v, %v, want mine", answer, err)
		}
		return !t.Failed()
	}
}

func enqueueIsIdempotent(t *queueTrial) {
	boxes := t.boxes()
	held, waiters := t.line("again", boxes, 2)
	for i, req := range waiters {
		t.queued(t.b, req, i)
		t.queued(t.a, req, i)
	}
	t.release(t.trial.a, held, driver.Mine)
	for i, req := range waiters {
		t.turn(boxes[i], req)
		t.leave(req, driver.Mine)
	}
	t.free(held.Name)
}

// aPlaceIsKept: nobody else's shorter Keep ends it.
func aPlaceIsKept(t *queueTrial) {
	b := t.open(t.a)
	held, patient, hasty := request("keep"), t.ask("keep", b.Address()), t.ask("keep", b.Address())
	held.TTL, patient.Keep, hasty.Keep = 1000*t.span(), 100*t.span(), t.span()
	t.acquire(t.trial.a, held)
	t.queued(t.a, patient, 0)
	t.queued(t.b, hasty, 1)
	t.pass(2 * hasty.Keep)
	hasty.Token = driver.NewToken("late/1")
	if before := t.enqueue(t.b, hasty).Before; before == 0 {
		t.Error("a place was not kept")
	}
	t.queued(t.a, patient, 0)
}

// aPlaceEnds: nobody has asked for long, and those who waited are dead.
func aPlaceEnds(t *queueTrial) {
	b := t.open(t.a)
	held := request("forgotten")
	held.TTL = 1e6 * t.span()
	t.acquire(t.trial.a, held)
	wait := t.span()
	t.eventually("a place is gone", func() bool {
		t.Helper()
		dead, next := t.ask("forgotten", b.Address()), t.ask("forgotten", b.Address())
		dead.Keep, next.Keep = t.span(), t.span()
		t.enqueue(t.a, dead)
		wait *= 2
		t.pass(wait)
		return t.enqueue(t.b, next).Before == 0
	})
}

// pass lets time pass by the store's clock.
func (t *trial) pass(d time.Duration) {
	if t.Advance != nil {
		t.Advance(d)
		return
	}
	time.Sleep(d)
}

func enqueueRefusesWhatAcquireRefuses(t *queueTrial) {
	b := t.open(t.a)
	for _, name := range badNames {
		_, err := t.a.Enqueue(t.in(), t.ask(name, b.Address()))
		t.nameError(err, name)
	}
	shared := t.ask("refused", b.Address())
	shared.Mode, shared.Limit = driver.Shared, 2
	if _, err := t.a.Enqueue(t.in(), shared); !errors.Is(err, driver.ErrUnsupported) {
		t.Errorf("Enqueue in mode Shared: %v, want ErrUnsupported", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := t.a.Enqueue(ended, t.ask("refused", b.Address())); !errors.Is(err, context.Canceled) {
		t.Errorf("Enqueue under an ended context: %v", err)
	}
	t.free("refused")
}

// anInboxEnds: nothing arrives after Close, which may be called again, and its
// waiters are passed over.
func anInboxEnds(t *queueTrial) {
	boxes := t.boxes()
	held, waiters := t.line("ended", boxes, 2)
	boxes[0].Close()
	boxes[0].Close()
	t.release(t.trial.a, held, driver.Mine)
	t.turn(boxes[1], waiters[1])
	t.silent(boxes)
	if reopened := t.open(t.a); reopened.Address() == boxes[0].Address() || reopened.Address() == boxes[1].Address() {
		t.Error("two inboxes have one address")
	}
}
