package redisstore

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfastlock/holdfast/driver"
	"github.com/holdfastlock/holdfast/internal/redistest"
)

// What happens between the two round trips of a step without scripts.

// meddled returns a store without scripts or native commands, with the name held
// by the request if it is to be.
func meddled(t *testing.T) (*redistest.Server, *meddling, *Store) {
	t.Helper()
	server := redistest.Start(t, redistest.Options{})
	with := &meddling{instead: native("")}
	return server, with, spied(t, server, with, scriptless...)
}

func TestWithoutScriptsANameThatIsTakenMeanwhileIsNotGranted(t *testing.T) {
	server, with, store := meddled(t)
	fence := acquire(t, open(t, server.Addr()), request("other name"))
	with.between(func() { do(t, server, "SET", "lock:x", "theirs", "PX", "60000") })
	result, err := store.Acquire(within(t), request("x"))
	if err != nil || result.Granted || len(result.State.Holders) != 1 || result.State.Holders[0].Token != "theirs" {
		t.Errorf("got %+v, %v, want who has taken it", result, err)
	}
	if got := do(t, server, "GET", "lock:x"); got != "theirs" || fence == 0 {
		t.Errorf("the lock is %q", got)
	}
	if n := number(t, server, "EXISTS", "lock:~f:{lock:x}"); n != 0 {
		t.Error("the refused one has written the companion")
	}
}

func TestWithoutScriptsAFenceThatIsGrantedMeanwhileIsNotGrantedAgain(t *testing.T) {
	server, with, store := meddled(t)
	other := open(t, server.Addr())
	var between int64
	with.between(func() { // a whole lease of somebody else's
		req := request("x")
		between = acquire(t, other, req)
		release(t, other, req, driver.Mine)
	})
	if fence := acquire(t, store, request("x")); fence <= between || between == 0 {
		t.Errorf("fence %d after %d", fence, between)
	}
}

func TestWithoutScriptsATokenThatIsWithdrawnMeanwhileIsRefused(t *testing.T) {
	server, with, store := meddled(t)
	other, req := open(t, server.Addr()), request("x")
	with.between(func() {
		_, err := other.Release(within(t), driver.ReleaseRequest{Name: req.Name, Token: req.Token, Tombstone: time.Minute})
		if err != nil {
			t.Error(err)
		}
	})
	if _, err := store.Acquire(within(t), req); !errors.Is(err, driver.ErrWithdrawn) {
		t.Errorf("got %v", err)
	}
	if n := number(t, server, "EXISTS", "lock:x"); n != 0 {
		t.Error("the name is locked")
	}
}

func TestWithoutScriptsALateReleaseLeavesASuccessorAlone(t *testing.T) {
	server, with, store := meddled(t)
	for _, tombstone := range []time.Duration{0, time.Minute} {
		do(t, server, "DEL", "lock:x")
		req := request("x")
		acquire(t, store, req)
		with.between(func() { do(t, server, "SET", "lock:x", "theirs", "PX", "60000") })
		answer, err := store.Release(within(t), driver.ReleaseRequest{Name: "x", Token: req.Token, Tombstone: tombstone})
		if err != nil || answer != driver.Taken {
			t.Errorf("release: %v, %v", answer, err)
		}
		if got := do(t, server, "GET", "lock:x"); got != "theirs" {
			t.Errorf("the lock is %q", got)
		}
	}
}

func TestWithoutScriptsALateExtensionNeitherShortensNorTouchesASuccessor(t *testing.T) {
	server, with, store := meddled(t)
	req := request("x")
	acquire(t, store, req)
	with.between(func() { do(t, server, "PEXPIRE", "lock:x", "3600000") })
	extend(t, store, longer(req))
	if left := number(t, server, "PTTL", "lock:x"); left < 3_000_000 {
		t.Errorf("the lease was cut to %d ms", left)
	}
	do(t, server, "PEXPIRE", "lock:x", "60000")
	with.between(func() { do(t, server, "SET", "lock:x", "theirs", "PX", "60000") })
	results := store.Extend(within(t), []driver.ExtendRequest{{Name: "x", Token: req.Token, TTL: time.Hour}})
	if results[0].Err != nil || results[0].Answer != driver.Taken {
		t.Errorf("extend: %+v, want taken", results[0])
	}
	if left := number(t, server, "PTTL", "lock:x"); left > 60_000 {
		t.Errorf("their lease was made %d ms long", left)
	}
}

func TestWithoutScriptsARunThatIsOvertakenNeitherBeginsNorEnds(t *testing.T) {
	server, with, store := meddled(t)
	other := open(t, server.Addr())
	first, second := request("job"), request("job")
	overtaken := func() {
		do(t, server, "DEL", "lock:job")
		begin(t, other, second, acquire(t, other, second), "s")
	}
	fence := acquire(t, store, first)
	with.between(overtaken)
	begun, err := store.BeginSlot(within(t), driver.BeginRequest{Job: "job", Slot: "s", Token: first.Token, Fence: fence})
	if err != nil || begun.Verdict != driver.NotHeld {
		t.Errorf("begin: %+v, %v", begun, err)
	}
	do(t, server, "DEL", "lock:job")
	first = request("job")
	fence = acquire(t, store, first)
	begin(t, store, first, fence, "s")
	second = request("job")
	with.between(overtaken)
	answer, err := store.FinishSlot(within(t), driver.FinishRequest{Job: "job", Slot: "s", Token: first.Token, Fence: fence, Keep: time.Hour})
	if err != nil || answer != driver.Taken {
		t.Errorf("finish: %v, %v", answer, err)
	}
	run, _, err := store.InspectSlot(within(t), "job", "s")
	if err != nil || run.Token != second.Token || run.Phase != driver.Running || run.Attempt != 3 {
		t.Errorf("the slot is %+v, %v", run, err)
	}
}

func TestWithoutScriptsWhatChangesAllTheTimeIsGivenUp(t *testing.T) {
	server, with, store := meddled(t)
	n := 0
	before := func(commands []Command) {
		if commands[0].Words[0] == "MULTI" && commands[1].Words[0] != "EXEC" {
			n++
			do(t, server, "HSET", "lock:~f:{lock:x}", "purpose", strings.Repeat("x", n))
		}
	}
	with.before.Store(&before)
	_, err := store.Acquire(within(t), request("x"))
	wantKind(t, err, driver.ErrUnreachable)
	if n != tries {
		t.Errorf("tried %d times, want %d", n, tries)
	}
	if n := number(t, server, "EXISTS", "lock:x"); n != 0 {
		t.Error("the name is locked")
	}
}

func TestWithoutScriptsAHeldLockSurvivesFullMemory(t *testing.T) {
	for _, verb := range []string{"", "DELIFEQ"} {
		server := redistest.Start(t, redistest.Options{})
		store := spied(t, server, &meddling{instead: native(verb)}, scriptless...)
		req := request("held")
		acquire(t, store, req)
		other := request("other")
		acquire(t, store, other)
		do(t, server, "CONFIG", "SET", "maxmemory", "1")

		_, err := store.Acquire(within(t), request("new"))
		wantKind(t, err, driver.ErrRefused)
		results := store.Extend(within(t), []driver.ExtendRequest{
			{Name: "held", Token: req.Token, TTL: time.Hour}, {Name: "held", Token: other.Token, TTL: 2 * time.Hour},
			{Name: "free", Token: req.Token, TTL: time.Hour}, {Name: "other", Token: other.Token, TTL: time.Second},
		})
		for i, want := range []driver.Answer{driver.Mine, driver.Taken, driver.Gone, driver.Mine} {
			if results[i].Err != nil || results[i].Answer != want {
				t.Errorf("lease %d: %+v, want %v", i, results[i], want)
			}
		}
		if left := number(t, server, "PTTL", "lock:held"); left < 3_000_000 || left > 3_600_000 {
			t.Errorf("it lasts %d ms, want an hour", left)
		}
		if left := number(t, server, "PTTL", "lock:other"); left < 30_000 {
			t.Errorf("a lease was cut to %d ms", left)
		}
		// Redis refuses all transactions then, Valkey from 9 only those that need memory.
		answer, err := store.Release(within(t), driver.ReleaseRequest{Name: "held", Token: req.Token, Tombstone: patience})
		if verb != "" && (err != nil || answer != driver.Mine) {
			t.Errorf("release: %v, %v", answer, err)
		}
		if err != nil {
			wantKind(t, err, driver.ErrRefused)
		}
		if n := number(t, server, "EXISTS", "lock:held"); (n == 0) != (err == nil) {
			t.Errorf("%d keys after %v", n, err)
		}
	}
}

// The race detector sees what the two would share.
func TestWithoutScriptsARequestGoesOnAloneWhenItsCallerHasGone(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	store := spied(t, server, &meddling{instead: native("DELIFEQ")}, scriptless...)
	req := request("x")
	acquire(t, store, req)
	for _, act := range []func(ctx context.Context) error{
		func(ctx context.Context) error {
			return store.Extend(ctx, []driver.ExtendRequest{{Name: "x", Token: req.Token, TTL: time.Hour}})[0].Err
		},
		func(ctx context.Context) error { _, _, err := store.InspectSlot(ctx, "x", "s"); return err },
		func(ctx context.Context) error {
			_, err := store.Release(ctx, driver.ReleaseRequest{Name: "x", Token: req.Token})
			return err
		},
	} {
		server.Pause()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		if err := act(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		cancel()
		server.Resume()
	}
	eventually(t, "it is released", func() bool { return number(t, server, "EXISTS", "lock:x") == 0 })
}

// So it is done in full memory, too.
func TestWithoutTransactionsAnExtensionIsComparedBeforeAndAfter(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	with := &meddling{instead: native("DELIFEQ")}
	store := spied(t, server, with, append(scriptless, "-multi")...)
	req := request("x")
	req.NoFence = true
	acquire(t, store, req)
	meanwhile := func(ttl time.Duration, act ...string) driver.ExtendResult {
		before := func(commands []Command) {
			if commands[0].Words[0] == "PEXPIRE" {
				do(t, server, act...)
			}
		}
		with.before.Store(&before)
		return store.Extend(within(t), []driver.ExtendRequest{{Name: "x", Token: req.Token, TTL: ttl}})[0]
	}
	if result := meanwhile(2*time.Minute, "PEXPIRE", "lock:x", "3600000"); result.Err != nil || result.Answer != driver.Mine {
		t.Errorf("extend: %+v", result)
	}
	if left := number(t, server, "PTTL", "lock:x"); left < 3_000_000 {
		t.Errorf("the lease was cut to %d ms", left)
	}
	if result := meanwhile(2*time.Hour, "SET", "lock:x", "theirs", "PX", "60000"); result.Err != nil || result.Answer != driver.Taken {
		t.Errorf("extend: %+v, want taken", result)
	}
}

func TestWithoutScriptsAGrantWaitsForReplicasToo(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	do(t, server, append([]string{"ACL", "SETUSER", "app", "reset", "on", ">pw"}, scriptless...)...)
	options := userOptions(server, "app")
	options.WaitReplicas, options.WaitTimeout = 1, 10*time.Millisecond
	store := openWith(t, options)
	for _, noFence := range []bool{false, true} {
		req := request("x")
		req.NoFence = noFence
		_, err := store.Acquire(within(t), req)
		wantKind(t, err, driver.ErrRefused)
		if n := number(t, server, "EXISTS", "lock:x"); n != 0 || !strings.Contains(err.Error(), "0 of 1 replicas") {
			t.Errorf("%d keys after %v", n, err)
		}
	}
}

func TestWithoutScriptsTheFenceIsAboveTheClockAndAboveTheLastOne(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	fenceAhead(t, server, asUser(t, server, "app", scriptless...))
}

func TestWithoutScriptsTheCompanionOutlivesALeaseHeldForLong(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	companionOutlives(t, server, asUser(t, server, "app", scriptless...))
}

func TestWithoutScriptsTombstonesThatAreOverAreRemoved(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	buried(t, server, asUser(t, server, "app", scriptless...))
}

func TestWithoutScriptsAKeyThatIsNotALockIsSaidToBeNone(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	notALock(t, server, asUser(t, server, "app", scriptless...))
}

func TestWithoutScriptsAReplicaRefuses(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	replicaRefuses(t, server, asUser(t, server, "app", scriptless...))
}

func TestWithoutScriptsALeaseWhoseKeyWasEvictedIsGoneWithThatReason(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	store := asUser(t, server, "app", scriptless...)
	req := request("x")
	acquire(t, store, req)
	extend := func() driver.ExtendResult {
		return store.Extend(within(t), []driver.ExtendRequest{{Name: req.Name, Token: req.Token, TTL: req.TTL}})[0]
	}
	do(t, server, "DEL", "lock:x")
	if result := extend(); result.Answer != driver.Gone || result.Why != nil || result.Err != nil {
		t.Errorf("deleted: %+v", result)
	}
	acquire(t, store, req)
	policy(t, server, "allkeys-random")
	do(t, server, "CONFIG", "SET", "maxmemory", "1")
	eventually(t, "the key is evicted", func() bool {
		server.Do("SET", "other", "")
		return number(t, server, "EXISTS", "lock:x") == 0
	})
	do(t, server, "CONFIG", "SET", "maxmemory", "0")
	result := extend()
	if result.Answer != driver.Gone || result.Why == nil || !strings.Contains(result.Why.Error(), "allkeys-random, evicted_keys ") {
		t.Errorf("evicted: %+v", result)
	}
}
