package drivertest

import "github.com/holdfastlock/holdfast/driver"

// after returns a request of a process that gives up its name and wants it again.
func (t *queueTrial) after(held driver.AcquireRequest, b *box) driver.QueueRequest {
	req := t.ask(held.Name, b.Address())
	req.Previous = held.Token
	return req
}

func (t *queueTrial) previous(result driver.QueueResult, want driver.Answer) {
	t.Helper()
	if result.Previous != want {
		t.Errorf("the previous token is answered with %v, want %v", result.Previous, want)
	}
}

// theNameIsPassedOnIfNobodyWaits, and the same request again says the same.
func theNameIsPassedOnIfNobodyWaits(t *queueTrial) {
	b := t.open(t.a)
	held := request("pass")
	fence := t.acquire(t.trial.a, held)
	next := t.after(held, b)
	result := t.enqueue(t.b, next)
	if !result.Granted {
		t.Fatalf("not granted: %+v", result)
	}
	t.previous(result, driver.Mine)
	fence = t.above(fence, result.Fence)
	t.heldBy(next.AcquireRequest)
	t.leftOver(held.Name, half)

	again := t.enqueue(t.a, next)
	t.previous(again, driver.Taken)
	if !again.Granted || again.Fence != fence {
		t.Errorf("asked again: %+v, want the fence %d", again, fence)
	}
	t.release(t.trial.b, held, driver.Taken)
	t.leave(next, driver.Mine)
	t.free(held.Name)
	t.silent([2]*box{b, b})
}

// theNameIsHandedOnIfOthersWait, and the new token has one place, behind them.
func theNameIsHandedOnIfOthersWait(t *queueTrial) {
	boxes := t.boxes()
	held, waiters := t.line("requeue", boxes, 2)
	next := t.after(held, boxes[1])
	result := t.queued(t.a, next, 1)
	t.previous(result, driver.Mine)
	if got := t.only(result.State).Token; got != waiters[0].Token {
		t.Errorf("%q stands in the way, want the first waiter", got)
	}
	t.turn(boxes[0], waiters[0])
	t.previous(t.queued(t.b, next, 1), driver.Taken)

	t.leave(waiters[0], driver.Mine)
	t.turn(boxes[1], waiters[1])
	t.leave(waiters[1], driver.Mine)
	t.turn(boxes[1], next)
	t.claim(t.a, next)
	t.leave(next, driver.Mine)
	t.free(held.Name)
	t.silent(boxes)
}

// theNewTokenIsServedIfTheOldOneIsGone: it has expired, or an earlier request of
// the same kind has released it.
func theNewTokenIsServedIfTheOldOneIsGone(t *queueTrial) {
	b := t.open(t.a)
	first, second := t.after(request("gone"), b), t.after(request("gone"), b)
	result := t.enqueue(t.a, first)
	t.previous(result, driver.Gone)
	if !result.Granted {
		t.Fatalf("not granted a free name: %+v", result)
	}
	t.previous(t.queued(t.b, second, 0), driver.Taken)
	t.leave(first, driver.Mine)
	t.turn(b, second)
}

// aWithdrawnTokenReleasesThePreviousOne: its caller has gone away, and wants
// neither.
func aWithdrawnTokenReleasesThePreviousOne(t *queueTrial) {
	boxes := t.boxes()
	held, waiters := t.line("gone away", boxes, 1)
	next := t.after(held, boxes[1])
	t.releaseWith(t.trial.a, driver.ReleaseRequest{Name: next.Name, Token: next.Token, Inbox: next.Inbox, Tombstone: whole}, driver.Taken)
	t.refused(next)
	t.turn(boxes[0], waiters[0])
	t.refused(next)
	t.heldBy(waiters[0].AcquireRequest)
	t.leave(waiters[0], driver.Mine)
	t.free(held.Name)
}

func withoutAPreviousTokenThereIsNoAnswer(t *queueTrial) {
	boxes := t.boxes()
	held, waiters := t.line("alone", boxes, 1)
	t.previous(t.queued(t.a, waiters[0], 0), 0)
	t.heldBy(held)
	t.release(t.trial.a, held, driver.Mine)
	t.turn(boxes[0], waiters[0])
	t.previous(t.enqueue(t.a, waiters[0]), 0)
}
