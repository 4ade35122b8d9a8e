package drivertest

import (
	"context"
	"errors"
	"time"

	"github.com/holdfastlock/holdfast/driver"
)

// forRaisers returns the part that is run where the store can raise a fence, and
// says so where it can't.
func forRaisers(check func(t *trial, a, b driver.FenceRaiser)) func(t *trial) {
	return func(t *trial) {
		a, ok := t.a.(driver.FenceRaiser)
		if !ok {
			t.Log("left out: this store does not raise fences")
			return
		}
		check(t, a, t.b.(driver.FenceRaiser))
	}
}

func (t *trial) raise(store driver.FenceRaiser, req driver.AcquireRequest, last int64, want driver.Answer) {
	t.Helper()
	answer, err := store.RaiseFence(t.in(), driver.RaiseRequest{Name: req.Name, Token: req.Token, Last: last})
	if err != nil || answer != want {
		t.Fatalf("RaiseFence of %q to %d: %v, %v, want %v", req.Name, last, answer, err, want)
	}
}

// month is far above what is granted, in the microseconds of a fence.
const month = int64(30 * 24 * time.Hour / time.Microsecond)

func aRaisedFenceIsTheGrants(t *trial, a, b driver.FenceRaiser) {
	req := request("raised")
	req.Fences = 16
	raised := t.acquire(t.a, req) + month
	for range 2 { // the second time it is raised already
		t.raise(b, req, req.Last(raised), driver.Mine)
		if again := t.acquire(t.a, req); again != raised {
			t.Errorf("acquired again: fence %d, want %d, as it was raised", again, raised)
		}
	}
	if state := t.inspect(t.b, req.Name); state.Fence != req.Last(raised) || t.only(state).Fence != req.Last(raised) {
		t.Errorf("shown as %+v, want fence %d", state, req.Last(raised))
	}
	t.extend(t.b, req, whole, driver.Mine)
	t.release(t.a, req, driver.Mine)
	t.above(req.Last(raised), t.acquire(t.b, request(req.Name)))
}

func aRaisedFenceIsKeptAcrossExpiry(t *trial, a, _ driver.FenceRaiser) {
	first, second := request("raised"), request("raised")
	first.TTL = t.span()
	begin := time.Now()
	raised := t.acquire(t.a, first) + month
	t.raise(a, first, raised, driver.Mine)
	t.endsAfter(begin, first.TTL, "the next is granted the name", t.granted(t.b, second))
	t.above(raised, t.acquire(t.b, second))
}

func aFenceIsNeverLowered(t *trial, a, b driver.FenceRaiser) {
	req := request("lowered")
	fence := t.acquire(t.a, req)
	for _, lower := range []int64{0, 1, fence - 1, fence} {
		t.raise(b, req, lower, driver.Mine)
		if got := t.holder(t.b, req.Name).Fence; got != fence {
			t.Fatalf("raised to %d, the fence became %d, want %d", lower, got, fence)
		}
	}
	t.raise(a, req, fence+9, driver.Mine)
	t.raise(a, req, fence+5, driver.Mine)
	t.release(t.a, req, driver.Mine)
	t.above(fence+9, t.acquire(t.b, request(req.Name)))
}

func raiseComparesTheToken(t *trial, a, b driver.FenceRaiser) {
	held, stranger := request("raise"), request("raise")
	t.raise(a, stranger, month, driver.Gone)
	if state := t.inspect(t.b, held.Name); len(state.Holders) != 0 || state.Fence != 0 {
		t.Fatalf("a stranger's raise of a free name made it %+v", state)
	}
	fence := t.acquire(t.a, held)
	t.raise(b, stranger, fence+month, driver.Taken)
	if got := t.holder(t.b, held.Name); got.Fence != fence || got.Token != held.Token {
		t.Errorf("a stranger's raise made the holder %+v, want fence %d", got, fence)
	}
	t.release(t.a, held, driver.Mine)
	t.raise(b, held, fence+month, driver.Gone)
	if next := t.acquire(t.b, stranger); next >= fence+month {
		t.Errorf("a raise after the release made the next fence %d", next)
	}
}

func raiseRefusesWhatAcquireRefuses(t *trial, a, _ driver.FenceRaiser) {
	_, err := a.RaiseFence(t.in(), driver.RaiseRequest{Name: "~bad", Token: "token", Last: 1})
	t.nameError(err, "~bad")
	req := request("raise")
	fence := t.acquire(t.a, req)
	ctx, cancel := context.WithCancel(t.in())
	cancel()
	_, err = a.RaiseFence(ctx, driver.RaiseRequest{Name: req.Name, Token: req.Token, Last: fence + month})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("RaiseFence with an ended context: %v", err)
	}
	if got := t.holder(t.b, req.Name).Fence; got != fence {
		t.Errorf("RaiseFence with an ended context made the fence %d, want %d", got, fence)
	}
}
