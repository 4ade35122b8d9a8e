package redisstore

import (
	"fmt"
	"testing"

	"github.com/holdfastlock/holdfast/driver"
	"github.com/holdfastlock/holdfast/internal/redistest"
)

// sent counts the commands that clients sent in act, without those that scripts
// ran and those that only watch.
func sent(t *testing.T, server *redistest.Server, act func()) map[string]int {
	t.Helper()
	before := server.CommandCounts()
	act()
	counts := make(map[string]int)
	for name, n := range server.CommandCounts() {
		if n -= before[name]; n > 0 {
			counts[name] = n
		}
	}
	return counts
}

func TestEachOperationIsOneScript(t *testing.T) {
	server, store := given(t)
	req := request("warm")
	acquire(t, store, req) // connects, and teaches the server the scripts
	extend(t, store, req)
	release(t, store, req, driver.Mine)
	_, _ = store.Inspect(within(t), req.Name)

	req = request("counted")
	for _, operation := range []struct {
		name string
		act  func()
	}{
		{"acquire", func() { acquire(t, store, req) }},
		{"refusal", func() { _, _ = store.Acquire(within(t), request("counted")) }},
		{"extend", func() { extend(t, store, req) }},
		{"inspect", func() { holder(t, store, req.Name) }},
		{"release", func() { release(t, store, req, driver.Mine) }},
	} {
		counts := sent(t, server, operation.act)
		if counts["evalsha"] != 1 || counts["eval"] != 0 {
			t.Errorf("%s: %v, want one evalsha", operation.name, counts)
		}
	}
}

func TestManyLeasesAreExtendedByFewScripts(t *testing.T) {
	server, store := given(t)
	const leases = 250
	reqs := make([]driver.ExtendRequest, leases)
	for i := range reqs {
		req := request(fmt.Sprintf("lease %d", i))
		acquire(t, store, req)
		reqs[i] = driver.ExtendRequest{Name: req.Name, Token: req.Token, TTL: req.TTL}
	}
	store.Extend(within(t), reqs[:1])
	counts := sent(t, server, func() {
		for i, result := range store.Extend(within(t), reqs) {
			if result.Err != nil || result.Answer != driver.Mine {
				t.Errorf("lease %d: %v, %v", i, result.Answer, result.Err)
			}
		}
	})
	if counts["evalsha"] != 3 || counts["eval"] != 0 || counts["set"] != 0 {
		t.Errorf("commands %v, want 3 scripts and no SET", counts)
	}
}

func TestAnAcquireWithoutFenceIsOnePlainCommand(t *testing.T) {
	server, store := given(t)
	req := request("bare")
	req.NoFence = true
	acquire(t, store, request("connects"))

	counts := sent(t, server, func() { acquire(t, store, req) })
	if counts["set"] != 1 || counts["evalsha"] != 0 || counts["eval"] != 0 {
		t.Errorf("commands %v, want one SET", counts)
	}
	if keys := number(t, server, "EXISTS", "lock:~f:{lock:bare}"); keys != 0 {
		t.Error("a companion was written")
	}
	acquire(t, store, req) // again, by the same token

	other := request("bare")
	other.NoFence = true
	result, err := store.Acquire(within(t), other)
	if err != nil || result.Granted || len(result.State.Holders) != 1 || result.State.Holders[0].Token != req.Token {
		t.Errorf("the second holder got %+v, %v", result, err)
	}
	release(t, store, req, driver.Mine)
}

func TestTheServerMayForgetTheScriptsAtAnyTime(t *testing.T) {
	server, store := given(t)
	flush := func() { do(t, server, "SCRIPT", "FLUSH") }
	req, other := request("flushed"), request("flushed too")
	acquire(t, store, req)
	flush()
	acquire(t, store, other)
	flush()
	results := store.Extend(within(t), []driver.ExtendRequest{
		{Name: req.Name, Token: req.Token, TTL: req.TTL},
		{Name: other.Name, Token: other.Token, TTL: other.TTL},
	})
	for _, result := range results {
		if result.Err != nil || result.Answer != driver.Mine {
			t.Errorf("Extend: %v, %v", result.Answer, result.Err)
		}
	}
	flush()
	holder(t, store, req.Name)
	flush()
	release(t, store, req, driver.Mine)
	flush()
	listed := 0
	for _, err := range store.List(within(t), "*") {
		if err != nil {
			t.Fatal(err)
		}
		listed++
	}
	if listed != 1 {
		t.Errorf("%d names listed, want 1", listed)
	}
}
