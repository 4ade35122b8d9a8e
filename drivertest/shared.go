package drivertest

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/holdfastlock/holdfast/driver"
)

func requestShared(name string, limit int) driver.AcquireRequest {
	req := request(name)
	req.Mode, req.Limit = driver.Shared, limit
	return req
}

// shared says whether the store understands Mode Shared, and if not, checks
// that it says so and does nothing.
func (t *trial) shared() bool {
	t.Helper()
	if t.a.Capabilities().Shared {
		return true
	}
	t.Log("this store does not claim Shared: only its refusal is checked")
	result, err := t.a.Acquire(t.in(), requestShared("shared", 2))
	if result.Granted || !errors.Is(err, driver.ErrUnsupported) {
		t.Errorf("a shared acquire: granted %v, %v, want ErrUnsupported", result.Granted, err)
	}
	t.free("shared")
	return false
}

func sharedHoldersAreCounted(t *trial) {
	if !t.shared() {
		return
	}
	const limit, callers = 3, 12
	var granted atomic.Int64
	var some atomic.Pointer[driver.AcquireRequest]
	t.together(callers, func(_ int, store driver.Store) {
		req := requestShared("shared", limit)
		result, err := store.Acquire(t.in(), req)
		if err != nil {
			t.Errorf("Acquire: %v", err)
		}
		if result.Granted {
			granted.Add(1)
			some.Store(&req)
		}
	})
	if n := granted.Load(); n != limit {
		t.Fatalf("%d of %d callers share the name, want %d", n, callers, limit)
	}
	t.sharedBy(limit)
	one, next := *some.Load(), requestShared("shared", limit)
	t.acquire(t.b, one) // already held: neither refused nor counted twice
	t.refuse(t.b, next)
	t.release(t.b, next, driver.Taken)
	t.sharedBy(limit)
	t.release(t.b, one, driver.Mine)
	t.acquire(t.a, next)
	t.sharedBy(limit)
}

// sharedBy checks the number of holders, and that their fences differ.
func (t *trial) sharedBy(n int) {
	t.Helper()
	state := t.inspect(t.b, "shared")
	if len(state.Holders) != n {
		t.Fatalf("%d holders, want %d: %+v", len(state.Holders), n, state)
	}
	fences := make(map[int64]bool)
	for _, h := range state.Holders {
		fences[h.Fence] = true
		if h.Mode != driver.Shared || h.Fence <= 0 || h.Fence > state.Fence || h.Left <= 0 {
			t.Errorf("holder %+v of a shared name whose last fence is %d", h, state.Fence)
		}
	}
	if len(fences) != n {
		t.Errorf("%d fences for %d holders", len(fences), n)
	}
}

func sharedAndExclusiveExcludeEachOther(t *trial) {
	if !t.shared() {
		return
	}
	shared, exclusive := requestShared("shared", 5), request("shared")
	before := t.acquire(t.a, shared)
	state := t.refuse(t.b, exclusive)
	t.shows(state, shared, before)
	t.release(t.a, shared, driver.Mine)

	before = t.above(before, t.acquire(t.b, exclusive))
	state = t.refuse(t.a, shared)
	t.shows(state, exclusive, before)
	t.release(t.b, exclusive, driver.Mine)
	t.above(before, t.acquire(t.a, shared))
}

func aSharedHolderEndsAlone(t *trial) {
	if !t.shared() {
		return
	}
	long, short, next := requestShared("shared", 2), requestShared("shared", 2), requestShared("shared", 2)
	long.TTL = 100 * t.span()
	t.acquire(t.a, long)
	short.TTL = t.span()
	begin := time.Now()
	t.acquire(t.a, short)
	t.endsAfter(begin, short.TTL, "the place of an ended holder is free", t.granted(t.b, next))
	t.extend(t.a, long, whole, driver.Mine)
	t.extend(t.a, short, whole, driver.Taken)
	t.sharedBy(2)
}
