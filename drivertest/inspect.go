package drivertest

import (
	"time"

	"github.com/holdfastlock/holdfast/driver"
)

func inspectShowsWhatIs(t *trial) {
	held := request("inspect")
	held.Purpose = "rebuild \"the\" index: ü, 100 %"
	if state := t.inspect(t.a, held.Name); len(state.Holders) != 0 || state.Fence != 0 {
		t.Fatalf("a name that nobody ever held: %+v", state)
	}
	fence := t.acquire(t.a, held)
	t.shows(t.inspect(t.b, held.Name), held, fence)

	t.release(t.a, held, driver.Mine)
	state := t.inspect(t.b, held.Name)
	if len(state.Holders) != 0 || state.Fence != fence && state.Fence != 0 {
		t.Fatalf("released with fence %d: %+v", fence, state)
	}

	next := request(held.Name)
	fence = t.acquire(t.b, next)
	t.shows(t.inspect(t.a, held.Name), next, fence) // and not the purpose before
}

// shows checks a state against the request, for whole, that was just granted.
func (t *trial) shows(state driver.State, req driver.AcquireRequest, fence int64) {
	t.Helper()
	if state.Name != req.Name || state.Fence != fence {
		t.Errorf("state of %q with fence %d, want %q with %d", state.Name, state.Fence, req.Name, fence)
	}
	h := t.only(state)
	if h.Token != req.Token || h.Fence != fence || h.Purpose != req.Purpose || h.Mode != req.Mode {
		t.Errorf("holder %+v, want that of %+v with fence %d", h, req, fence)
	}
	if h.Left <= half || h.Left > req.TTL+time.Second {
		t.Errorf("kept for %v, want about %v", h.Left, req.TTL)
	}
	if h.Age < 0 || h.Age > half {
		t.Errorf("age %v of a fresh grant", h.Age)
	}
}

// ageCountsFromTheGrant: extending, or acquiring again, does not start it anew.
func ageCountsFromTheGrant(t *trial) {
	const enough = 20 * time.Millisecond
	req := request("age")
	t.acquire(t.a, req)
	if t.Advance != nil {
		t.Advance(enough)
	}
	t.eventually("the grant grows older", func() bool {
		t.Helper()
		return t.holder(t.b, req.Name).Age >= enough
	})
	t.extend(t.a, req, whole, driver.Mine)
	t.acquire(t.a, req)
	if age := t.holder(t.b, req.Name).Age; age < enough || age > half {
		t.Errorf("age %v after an extend, want at least %v", age, enough)
	}
}
