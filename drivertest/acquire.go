package drivertest

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfastlock/holdfast/driver"
)

// together calls f n times at once, with both handles in turn, and waits.
func (t *trial) together(n int, f func(i int, store driver.Store)) {
	var all sync.WaitGroup
	gate := make(chan struct{})
	for i := range n {
		store := t.a
		if i%2 == 1 {
			store = t.b
		}
		all.Go(func() {
			<-gate
			f(i, store)
		})
	}
	close(gate)
	all.Wait()
}

func oneOfManyIsGranted(t *trial) {
	const rounds, callers = 5, 16
	for range rounds {
		var granted atomic.Int64
		var winner atomic.Pointer[driver.AcquireRequest]
		t.together(callers, func(_ int, store driver.Store) {
			req := request("one")
			result, err := store.Acquire(t.in(), req)
			if err != nil {
				t.Errorf("Acquire: %v", err)
			}
			if result.Granted {
				granted.Add(1)
				winner.Store(&req)
			}
		})
		if n := granted.Load(); n != 1 {
			t.Fatalf("%d of %d callers were granted the name, want 1", n, callers)
		}
		t.heldBy(*winner.Load())
		t.release(t.a, *winner.Load(), driver.Mine)
	}
}

// holdersComeOneAfterAnother lets callers compete, and looks from inside the
// held sections: never two at once, and each fence above the one before.
func holdersComeOneAfterAnother(t *trial) {
	const callers, turns = 6, 5
	var inside, last atomic.Int64
	t.together(callers, func(_ int, store driver.Store) {
		for range turns {
			req := request("turns")
			fence := t.acquireAtLast(store, req)
			if n := inside.Add(1); n != 1 {
				t.Errorf("%d holders at once", n)
			}
			if before := last.Swap(fence); fence <= before {
				t.Errorf("fence %d was granted after %d", fence, before)
			}
			time.Sleep(time.Millisecond) // time for a second holder to come in
			inside.Add(-1)
			answer, err := store.Release(t.in(), driver.ReleaseRequest{Name: req.Name, Token: req.Token})
			if err != nil || answer != driver.Mine {
				t.Errorf("Release answered %v, %v, want mine", answer, err)
			}
			if t.Failed() {
				return
			}
		}
	})
}

// acquireAtLast asks until it is granted or has failed, and may be called on
// any goroutine.
func (t *trial) acquireAtLast(store driver.Store, req driver.AcquireRequest) (fence int64) {
	ctx := t.in()
	for !t.Failed() {
		result, err := store.Acquire(ctx, req)
		if err != nil {
			t.Errorf("Acquire %q: %v", req.Name, err)
		}
		if result.Granted {
			return result.Fence
		}
		time.Sleep(time.Millisecond) // let the holder get through
	}
	return 0
}

func aRefusalSaysWhoHoldsIt(t *trial) {
	held := request("refusal")
	held.Token, held.Purpose = driver.NewToken("db-7/42"), "nightly report, §1"
	fence := t.acquire(t.a, held)

	state := t.refuse(t.b, request("refusal"))
	t.shows(state, held, fence)
	if owner := t.only(state).Owner(); owner != "db-7/42" {
		t.Errorf("owner %q, want %q", owner, "db-7/42")
	}
	t.heldBy(held)
}

func acquireIsIdempotentByToken(t *trial) {
	req := request("again")
	req.TTL = brief
	fence := t.acquire(t.a, req)
	req.TTL = whole
	for _, store := range []driver.Store{t.a, t.b} {
		if again := t.acquire(store, req); again != fence {
			t.Fatalf("acquired again: fence %d, want %d", again, fence)
		}
	}
	t.leftOver(req.Name, half)
	t.refuse(t.b, request("again"))
	t.release(t.b, req, driver.Mine)
	t.free(req.Name)
}

func acquireAgainNeverShortens(t *trial) {
	req := request("again, shorter")
	t.acquire(t.a, req)
	req.TTL = brief
	t.acquire(t.a, req)
	t.leftOver(req.Name, half)
}
