package drivertest

import (
	"errors"
	"time"

	"github.com/holdfastlock/holdfast/driver"
)

func aFreeNameIsHandedOnByWhoeverAsks(t *queueTrial) {
	boxes := t.boxes()
	waiter := t.orphaned(boxes[0])
	second := t.ask(waiter.Name, boxes[1].Address())
	result := t.queued(t.b, second, 0)
	if got := t.only(result.State).Token; got != waiter.Token {
		t.Errorf("%q stands in the way, want the first waiter", got)
	}
	t.turn(boxes[0], waiter)
	t.leave(waiter, driver.Mine)
	t.turn(boxes[1], second)
	t.silent(boxes)
}

// theFirstWaiterTakesAFreeName by asking, and leaves no place behind.
func theFirstWaiterTakesAFreeName(t *queueTrial) {
	b := t.open(t.a)
	waiter := t.orphaned(b)
	t.claim(t.a, waiter)
	t.leftOver(waiter.Name, half)
	t.release(t.trial.a, waiter.AcquireRequest, driver.Mine)
	t.free(waiter.Name)
	t.claim(t.a, t.ask(waiter.Name, b.Address()))
	t.silent([2]*box{b, b})
}

// aFirstTryMayGoBefore: Acquire knows nothing of queues.
func aFirstTryMayGoBefore(t *queueTrial) {
	boxes := t.boxes()
	waiter := t.orphaned(boxes[0])
	other := request(waiter.Name)
	t.acquire(t.trial.a, other)
	t.queued(t.a, waiter, 0)
	t.release(t.trial.a, other, driver.Mine)
	t.turn(boxes[0], waiter)
}

func aHandOffIsClaimedByAsking(t *queueTrial) {
	boxes := t.boxes()
	held, waiters := t.line("claim", boxes, 1)
	before := t.holder(t.trial.b, held.Name).Fence
	t.release(t.trial.a, held, driver.Mine)
	t.turn(boxes[0], waiters[0])
	if left := t.holder(t.trial.b, held.Name).Left; left > driver.Claim {
		t.Errorf("a name that was handed on is kept for %v, want %v", left, driver.Claim)
	}
	req := waiters[0]
	req.Purpose, req.Fences = "claimed", 5
	fence := t.above(before, t.claim(t.b, req))
	t.shows(t.inspect(t.trial.b, held.Name), req.AcquireRequest, req.Last(fence))
	t.leftOver(held.Name, half)
	for i := range 2 {
		if again := t.claim(t.handle(i), req); again != fence {
			t.Errorf("claimed again: fence %d, want %d", again, fence)
		}
	}
	t.leave(req, driver.Mine)
	t.above(req.Last(fence), t.acquire(t.trial.a, request(held.Name)))
}

func aClaimWithoutFenceHasNone(t *queueTrial) {
	boxes := t.boxes()
	held, waiters := t.line("plain", boxes, 1)
	t.release(t.trial.a, held, driver.Mine)
	t.turn(boxes[0], waiters[0])
	waiters[0].NoFence = true
	for range 2 {
		if fence := t.claim(t.a, waiters[0]); fence != 0 {
			t.Errorf("NoFence was granted with fence %d, want 0", fence)
		}
	}
	if fence := t.holder(t.trial.b, held.Name).Fence; fence != 0 {
		t.Errorf("a holder without fence is shown with %d, want 0", fence)
	}
	t.leftOver(held.Name, half)
}

// aHandOffThatNobodyClaimsEnds: the waiter has died since.
func aHandOffThatNobodyClaimsEnds(t *queueTrial) {
	boxes := t.boxes()
	held, waiters := t.line("unclaimed", boxes, 2)
	begin := time.Now()
	t.release(t.trial.a, held, driver.Mine)
	t.turn(boxes[0], waiters[0])
	t.endsAfter(begin, driver.Claim, "the second waiter has the name", func() bool {
		t.Helper()
		return t.enqueue(t.b, waiters[1]).Granted
	})
	t.queued(t.a, waiters[0], 0)
}

// deadWaitersArePassedOver in the same release.
func deadWaitersArePassedOver(t *queueTrial) {
	boxes := t.boxes()
	held, _ := t.line("dead", boxes, 1)
	closed := t.open(t.a)
	for i, address := range []string{closed.Address(), "nobody", closed.Address()} {
		t.queued(t.a, t.ask("dead", address), i+1)
	}
	alive := t.ask("dead", boxes[1].Address())
	t.queued(t.b, alive, 4)
	closed.Close()
	boxes[0].Close()
	t.release(t.trial.b, held, driver.Mine)
	t.turn(boxes[1], alive)
	t.leave(alive, driver.Mine)
	t.free(held.Name)
}

func aQueueOfTheDeadFreesTheName(t *queueTrial) {
	held := request("dead")
	t.acquire(t.trial.a, held)
	for i := range 3 {
		t.queued(t.a, t.ask("dead", "nobody"), i)
	}
	t.release(t.trial.b, held, driver.Mine)
	t.free(held.Name)
	t.claim(t.a, t.ask("dead", "nobody"))
}

func aReleaseGivesUpThePlace(t *queueTrial) {
	boxes := t.boxes()
	held, waiters := t.line("leave", boxes, 4)
	t.leave(waiters[1], driver.Taken)
	t.queued(t.a, waiters[2], 1)
	t.leave(waiters[1], driver.Taken)

	t.release(t.trial.a, held, driver.Mine)
	t.turn(boxes[0], waiters[0])
	t.leave(waiters[0], driver.Mine) // handed on, not claimed
	t.turn(boxes[0], waiters[2])
	t.leave(waiters[3], driver.Taken)
	t.leave(waiters[2], driver.Mine)
	t.free(held.Name)
	t.silent(boxes)
}

func aWithdrawnWaiterLosesItsPlace(t *queueTrial) {
	boxes := t.boxes()
	held, waiters := t.line("withdrawn", boxes, 2)
	gone := waiters[0]
	t.releaseWith(t.trial.b, driver.ReleaseRequest{
		Name: gone.Name, Token: gone.Token, Inbox: gone.Inbox, Tombstone: whole,
	}, driver.Taken)
	t.queued(t.b, waiters[1], 0)
	t.refused(gone)
	t.release(t.trial.a, held, driver.Mine)
	t.turn(boxes[1], waiters[1])
	t.leave(waiters[1], driver.Mine)
	t.free(held.Name)
	t.refused(gone)
	t.free(held.Name)
	t.silent(boxes)
}

// refused checks that the token is not let into the queue.
func (t *queueTrial) refused(req driver.QueueRequest) {
	t.Helper()
	result, err := t.a.Enqueue(t.in(), req)
	if !errors.Is(err, driver.ErrWithdrawn) || result.Granted {
		t.Errorf("Enqueue by a tombstoned token: granted %v, %v, want ErrWithdrawn", result.Granted, err)
	}
}

// aReleaseThatOwnsNothingFreesNobody: neither the holder nor a waiter.
func aReleaseThatOwnsNothingFreesNobody(t *queueTrial) {
	boxes := t.boxes()
	held, waiters := t.line("late", boxes, 2)
	stranger := t.ask("late", boxes[0].Address())
	t.leave(stranger, driver.Taken)
	t.heldBy(held)
	t.queued(t.a, waiters[1], 1)

	t.release(t.trial.a, held, driver.Mine)
	t.turn(boxes[0], waiters[0])
	t.release(t.trial.b, held, driver.Taken)
	t.leave(stranger, driver.Taken)
	t.heldBy(waiters[0].AcquireRequest)
	t.queued(t.b, waiters[1], 0)
	t.silent(boxes)
}
