package drivertest

import (
	"time"

	"github.com/holdfastlock/holdfast/driver"
)

// fenceEnd is where numbers stop being exact in JSON and Lua.
const fenceEnd = 1 << 53

// above checks a fence against the one granted before it and returns it.
func (t *trial) above(before, fence int64) int64 {
	t.Helper()
	if fence <= before || fence >= fenceEnd {
		t.Fatalf("fence %d was granted after %d, want more, and below 2^53", fence, before)
	}
	return fence
}

func fencesIncrease(t *trial) {
	var last int64
	for i := range 30 {
		req := request("fence")
		store := t.a
		if i%2 == 1 {
			store = t.b
		}
		last = t.above(last, t.acquire(store, req))
		t.release(store, req, driver.Mine)
	}
}

func aGrantReservesAsManyFencesAsItIsAskedFor(t *trial) {
	req, next := request("block"), request("block")
	req.Fences = 16
	first := t.acquire(t.a, req)
	if again := t.acquire(t.b, req); again != first {
		t.Errorf("the same token was granted %d, then %d", first, again)
	}
	last := first + 15
	if fence := t.holder(t.b, req.Name).Fence; fence != last {
		t.Errorf("the holder is shown with %d, want the last of its block, %d", fence, last)
	}
	t.release(t.a, req, driver.Mine)
	t.above(last, t.acquire(t.b, next))
}

func fencesIncreaseAcrossExpiry(t *trial) {
	first, second := request("fence"), request("fence")
	first.TTL = t.span()
	begin := time.Now()
	before := t.acquire(t.a, first)
	t.endsAfter(begin, first.TTL, "the next is granted the name", t.granted(t.b, second))
	t.above(before, t.acquire(t.b, second))
}

func fencesIncreaseAcrossRestart(t *trial) {
	if t.Restart == nil || !t.a.Capabilities().FenceSurvivesRestart {
		t.Log("left out: this store can't be restarted here, or does not claim FenceSurvivesRestart")
		return
	}
	req := request("fence")
	before := t.acquire(t.a, req)
	t.release(t.a, req, driver.Mine)
	t.Restart(t.T)
	t.above(before, t.acquire(t.Open(t.T), request("fence")))
}

func fencesIncreaseAcrossAWipe(t *trial) {
	if t.Wipe == nil || !t.a.Capabilities().FenceSurvivesWipe {
		t.Log("left out: this store can't be wiped here, or does not claim FenceSurvivesWipe")
		return
	}
	var last int64
	for range 3 {
		last = t.above(last, t.acquire(t.a, request("fence")))
		t.Wipe(t.T)
	}
}

func aWipedLeaseIsGone(t *trial) {
	if t.Wipe == nil {
		t.Log("left out: this store can't be wiped here")
		return
	}
	req := request("wiped")
	t.acquire(t.a, req)
	t.Wipe(t.T)
	t.extend(t.a, req, whole, driver.Gone)
	t.free(req.Name)
	t.release(t.a, req, driver.Gone)
	t.acquire(t.b, request("wiped"))
}

func aGrantWithoutFenceExcludesAsWell(t *trial) {
	fenced, plain, next := request("plain"), request("plain"), request("plain")
	before := t.acquire(t.a, fenced)
	t.release(t.a, fenced, driver.Mine)

	plain.NoFence = true
	for range 2 { // the second time it is already held
		if fence := t.acquire(t.a, plain); fence != 0 {
			t.Errorf("NoFence was granted with fence %d, want 0", fence)
		}
	}
	if fence := t.holder(t.b, plain.Name).Fence; fence != 0 {
		t.Errorf("a holder without fence is shown with %d, want 0", fence)
	}
	t.refuse(t.b, next)
	t.extend(t.b, plain, 2*whole, driver.Mine)
	t.leftOver(plain.Name, whole)
	t.release(t.b, plain, driver.Mine)
	t.above(before, t.acquire(t.b, next))
}
