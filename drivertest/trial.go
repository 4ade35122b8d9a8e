package drivertest

import (
	"context"
	"testing"
	"time"

	"github.com/holdfastlock/holdfast/driver"
)

// patience is how long a condition that must come true may take; it is no
// measure of speed.
var patience = 15 * time.Second

const (
	// whole is a TTL that no test lives to see the end of.
	whole = time.Minute
	// brief is a TTL below half of whole, so that the two can be told apart
	// on a slow machine.
	brief = 10 * time.Second
	half  = whole / 2
)

// trial is one subtest with two handles onto one store.
type trial struct {
	*testing.T
	Backend
	a, b driver.Store
}

// request asks for the name with a fresh token.
func request(name string) driver.AcquireRequest {
	return driver.AcquireRequest{Name: name, Token: driver.NewToken("host/1"), TTL: whole}
}

// in returns a context for one call.
func (t *trial) in() context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

func (t *trial) try(store driver.Store, req driver.AcquireRequest) driver.AcquireResult {
	t.Helper()
	result, err := store.Acquire(t.in(), req)
	if err != nil {
		t.Fatalf("Acquire %q: %v", req.Name, err)
	}
	return result
}

// acquire must be granted; it returns the fence.
func (t *trial) acquire(store driver.Store, req driver.AcquireRequest) int64 {
	t.Helper()
	result := t.try(store, req)
	if !result.Granted {
		t.Fatalf("Acquire %q was refused: %+v", req.Name, result.State)
	}
	return result.Fence
}

// refuse must not be granted; it returns what stood in the way.
func (t *trial) refuse(store driver.Store, req driver.AcquireRequest) driver.State {
	t.Helper()
	result := t.try(store, req)
	if result.Granted {
		t.Fatalf("Acquire %q was granted to a second holder", req.Name)
	}
	if result.Fence != 0 {
		t.Errorf("Acquire %q was refused with fence %d, want 0", req.Name, result.Fence)
	}
	return result.State
}

func (t *trial) release(store driver.Store, req driver.AcquireRequest, want driver.Answer) {
	t.Helper()
	t.releaseWith(store, driver.ReleaseRequest{Name: req.Name, Token: req.Token}, want)
}

func (t *trial) releaseWith(store driver.Store, req driver.ReleaseRequest, want driver.Answer) {
	t.Helper()
	answer, err := store.Release(t.in(), req)
	if err != nil {
		t.Fatalf("Release %q: %v", req.Name, err)
	}
	if answer != want {
		t.Fatalf("Release %q answered %v, want %v", req.Name, answer, want)
	}
}

func (t *trial) extend(store driver.Store, req driver.AcquireRequest, ttl time.Duration, want driver.Answer) {
	t.Helper()
	if answer := t.tryExtend(store, req, ttl); answer != want {
		t.Fatalf("Extend %q answered %v, want %v", req.Name, answer, want)
	}
}

func (t *trial) tryExtend(store driver.Store, req driver.AcquireRequest, ttl time.Duration) driver.Answer {
	t.Helper()
	results := store.Extend(t.in(), []driver.ExtendRequest{{Name: req.Name, Token: req.Token, TTL: ttl}})
	if len(results) != 1 {
		t.Fatalf("Extend of one lease gave %d results", len(results))
	}
	if results[0].Err != nil {
		t.Fatalf("Extend %q: %v", req.Name, results[0].Err)
	}
	return results[0].Answer
}

func (t *trial) inspect(store driver.Store, name string) driver.State {
	t.Helper()
	state, err := store.Inspect(t.in(), name)
	if err != nil {
		t.Fatalf("Inspect %q: %v", name, err)
	}
	if state.Name != name {
		t.Errorf("Inspect %q gave the name %q", name, state.Name)
	}
	return state
}

// holder returns the only holder.
func (t *trial) holder(store driver.Store, name string) driver.Holder {
	t.Helper()
	return t.only(t.inspect(store, name))
}

func (t *trial) only(state driver.State) driver.Holder {
	t.Helper()
	if len(state.Holders) != 1 {
		t.Fatalf("%q has %d holders, want 1: %+v", state.Name, len(state.Holders), state)
	}
	return state.Holders[0]
}

// heldBy checks that the request's token, and no other, holds its name.
func (t *trial) heldBy(req driver.AcquireRequest) {
	t.Helper()
	if got := t.holder(t.b, req.Name).Token; got != req.Token {
		t.Fatalf("%q is held by %q, want %q", req.Name, got, req.Token)
	}
}

func (t *trial) free(name string) {
	t.Helper()
	if state := t.inspect(t.b, name); len(state.Holders) != 0 {
		t.Fatalf("%q is held, want free: %+v", name, state)
	}
}

// leftOver checks that the lease lasts longer than d from now.
func (t *trial) leftOver(name string, d time.Duration) {
	t.Helper()
	if left := t.holder(t.b, name).Left; left <= d {
		t.Fatalf("%q is kept for %v, want more than %v", name, left, d)
	}
}

// eventually waits until the condition is true.
func (t *trial) eventually(what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !condition() {
		if time.Now().After(deadline) {
			t.Fatalf("not true after %v: %s", patience, what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// span is a TTL whose end a test waits for.
func (t *trial) span() time.Duration {
	if t.Advance != nil {
		return time.Hour
	}
	return 250 * time.Millisecond
}

// endsAfter checks that the condition becomes true when d has passed by the
// store's clock, and not before. In real time that counts from begin, which was
// read before the store was asked; the clocks may differ by the smallest margin
// that a holder keeps, 10 ms.
func (t *trial) endsAfter(begin time.Time, d time.Duration, what string, condition func() bool) {
	t.Helper()
	const margin = 10 * time.Millisecond
	if t.Advance != nil {
		t.Advance(d - d/10)
		if condition() {
			t.Fatalf("true before the store's clock moved by %v: %s", d, what)
		}
		t.Advance(d / 10)
	}
	t.eventually(what, condition)
	if took := time.Since(begin); t.Advance == nil && took < d-margin {
		t.Fatalf("true after %v, before %v: %s", took, d, what)
	}
}

// granted returns a condition: the request is granted.
func (t *trial) granted(store driver.Store, req driver.AcquireRequest) func() bool {
	return func() bool {
		t.Helper()
		return t.try(store, req).Granted
	}
}
