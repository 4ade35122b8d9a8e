package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfastlock/holdfast"
	"github.com/holdfastlock/holdfast/driver"
	"github.com/holdfastlock/holdfast/drivertest"
	"github.com/holdfastlock/holdfast/internal/redistest"
)

// scriptless are the rules of a user who may do all but run scripts.
var scriptless = []string{"~lock:*", "&lock:*", "+@all", "-@scripting"}

func TestAServerWithoutScriptsKeepsTheContract(t *testing.T) {
	drivertest.Run(t, func(t *testing.T) drivertest.Backend {
		server := redistest.Start(t, redistest.Options{AppendOnly: true})
		return drivertest.Backend{
			Open:    func(t *testing.T) driver.Store { return asUser(t, server, "plain", scriptless...) },
			Restart: func(*testing.T) { server.Restart(true) },
			Wipe:    func(t *testing.T) { do(t, server, "FLUSHALL") },
		}
	})
}

func TestAClusterWithoutScriptsKeepsTheContract(t *testing.T) {
	server, _ := cluster(t)
	drivertest.Run(t, func(t *testing.T) drivertest.Backend {
		do(t, server, "FLUSHALL")
		return drivertest.Backend{
			Open: func(t *testing.T) driver.Store { return asUser(t, server, "plain", scriptless...) },
			Wipe: func(t *testing.T) { do(t, server, "FLUSHALL") },
		}
	})
}

// TestClientsWithAndWithoutScriptsExcludeEachOther: each holder changes a number
// in two steps and looks whether its fence is above the last one.
func TestClientsWithAndWithoutScriptsExcludeEachOther(t *testing.T) {
	const workers, times = 16, 12
	server, withScripts := given(t)
	without := asUser(t, server, "plain", scriptless...)
	var inside atomic.Int32
	var sum, last int64 // guarded by the lock alone
	turn := func(store *Store) bool {
		req := request("mixed")
		result, err := store.Acquire(within(t), req)
		if err != nil && !errors.Is(err, errMeanwhile) {
			t.Errorf("acquire: %v", err)
		}
		if !result.Granted {
			return false
		}
		if inside.Add(1) != 1 {
			t.Error("two hold it")
		}
		before := sum
		if result.Fence <= last {
			t.Errorf("fence %d was granted after %d", result.Fence, last)
		}
		last = result.Fence
		extend(t, store, req)
		sum = before + 1
		inside.Add(-1)
		release(t, store, req, driver.Mine)
		return true
	}
	var running sync.WaitGroup
	for i := range workers {
		store := []*Store{withScripts, without}[i%2]
		running.Go(func() {
			for range times {
				for !turn(store) && !t.Failed() {
					time.Sleep(time.Millisecond)
				}
			}
		})
	}
	running.Wait()
	if sum != workers*times {
		t.Errorf("%d of %d changes are lost", workers*times-sum, workers*times)
	}
}

func TestWithoutScriptsAWaiterWhoHasThemIsToldOfARelease(t *testing.T) {
	server, store := given(t)
	for name, plain := range map[string]*Store{
		"by a transaction": spied(t, server, &meddling{instead: native("")}, scriptless...),
		"by a command":     spied(t, server, &meddling{instead: native("DELIFEQ")}, scriptless...),
	} {
		inbox, gone := listen(t, store), listen(t, store)
		req := request(name)
		acquire(t, plain, req)
		waiting(t, store, name, gone, 0)
		gone.Close()
		waiter := waiting(t, store, name, inbox, 1)
		release(t, plain, req, driver.Mine)
		hinted(t, inbox)
		claim(t, store, waiter)
	}
}

func TestWithoutScriptsOperationsTakeTheseRoundTrips(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	for _, verb := range []string{"", "DELIFEQ", "DELEX"} {
		with := &meddling{instead: native(verb)}
		store := spied(t, server, with, scriptless...)
		req := request("warm")
		acquire(t, store, req)
		release(t, store, req, driver.Mine) // what there is, is known now

		req = request("counted " + verb)
		releases := map[string]int{"": 2, "DELIFEQ": 1, "DELEX": 1}[verb]
		for _, operation := range []struct {
			name  string
			trips int
			act   func()
		}{
			{"acquire", 2, func() { acquire(t, store, req) }},
			{"refusal", 1, func() { _, _ = store.Acquire(within(t), request(req.Name)) }},
			{"extend", 2, func() { extend(t, store, longer(req)) }},
			{"inspect", 1, func() { holder(t, store, req.Name) }},
			{"release", releases, func() { release(t, store, req, driver.Mine) }},
			{"again", 1, func() { release(t, store, req, driver.Gone) }},
		} {
			if trips := with.tripsOf(operation.act); trips != operation.trips {
				t.Errorf("%q: %s takes %d round trips, want %d", verb, operation.name, trips, operation.trips)
			}
		}
	}
}

func longer(req driver.AcquireRequest) driver.AcquireRequest {
	req.TTL *= 2
	return req
}

func TestWithoutScriptsAGrantIsTheseCommands(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	with := &meddling{instead: native("")}
	store := spied(t, server, with, scriptless...)
	warm := request("x")
	acquire(t, store, warm) // also sets the time of the companion
	release(t, store, warm, driver.Mine)
	var commands []string
	note := func(batch []Command) {
		for _, c := range batch {
			commands = append(commands, c.Words[0])
		}
	}
	with.before.Store(&note)
	acquire(t, store, request("x"))
	const want = "MULTI EXEC WATCH GET PTTL HMGET TIME MULTI HSET SET EXEC"
	if got := strings.Join(commands, " "); got != want {
		t.Errorf("sent %s, want %s", got, want)
	}
}

func TestWithoutScriptsManyLeasesAreExtendedInTwoRoundTrips(t *testing.T) {
	const leases = 250
	server, scripts := given(t)
	with := &meddling{}
	store := spied(t, server, with, scriptless...)
	reqs := make([]driver.ExtendRequest, leases)
	for i := range reqs {
		req := request(fmt.Sprintf("lease %d", i))
		acquire(t, scripts, req)
		reqs[i] = driver.ExtendRequest{Name: req.Name, Token: req.Token, TTL: 2 * req.TTL}
	}
	holder(t, store, "lease 0") // learns that there are no scripts
	trips := with.tripsOf(func() {
		for i, result := range store.Extend(within(t), reqs) {
			if result.Err != nil || result.Answer != driver.Mine {
				t.Errorf("lease %d: %v, %v", i, result.Answer, result.Err)
			}
		}
	})
	if trips != 2 {
		t.Errorf("%d round trips, want 2", trips)
	}
	for _, i := range []int{0, leases - 1} {
		if left := holder(t, store, reqs[i].Name).Left; left <= time.Minute {
			t.Errorf("lease %d lasts %v", i, left)
		}
	}
}

func TestTheLibraryWorksWithoutScripts(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	do(t, server, append([]string{"ACL", "SETUSER", "plain", "reset", "on", ">pw"}, scriptless...)...)
	var warnings, extended atomic.Int32
	process := func() *holdfast.Locker {
		options := userOptions(server, "plain")
		options.Warn = func(text string) {
			warnings.Add(1)
			if !strings.Contains(text, "polls") || strings.Contains(text, "\n") {
				t.Errorf("warned: %q", text)
			}
		}
		return lockerOn(t, openWith(t, options), holdfast.Config{
			TTL: 2 * time.Second, Events: holdfast.Events{Extended: func(holdfast.Event) { extended.Add(1) }},
		})
	}
	one, other := process(), process()
	lease := hold(t, one)
	next := make(chan *holdfast.Lease)
	go func() { next <- hold(t, other) }()
	eventually(t, "it is kept alive past its TTL", func() bool { return extended.Load() >= 4 })
	if lease.Context().Err() != nil {
		t.Fatal(context.Cause(lease.Context()))
	}
	if err := lease.Release(within(t)); err != nil {
		t.Fatal(err)
	}
	second := <-next
	if second.Fence() <= lease.Fence() {
		t.Errorf("fence %d after %d", second.Fence(), lease.Fence())
	}
	if err := second.Release(within(t)); err != nil {
		t.Error(err)
	}
	ran := false
	err := one.Do(within(t), "report", func(context.Context, *holdfast.Lease) error { ran = true; return nil })
	if err != nil || !ran {
		t.Errorf("Do: ran %v, %v", ran, err)
	}
	if n := warnings.Load(); n != 2 {
		t.Errorf("%d warnings, want one of each store", n)
	}
}
