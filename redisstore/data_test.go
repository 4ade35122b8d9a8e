package redisstore

import (
	"strconv"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfastlock/holdfast/driver"
	"github.com/holdfastlock/holdfast/internal/redistest"
)

func TestTheKeyIsAPlainStringThatHoldsTheToken(t *testing.T) {
	server, store := given(t)
	req := request("plain")
	acquire(t, store, req)
	if got := do(t, server, "GET", "lock:plain"); got != req.Token {
		t.Errorf("GET lock:plain is %q, want %q", got, req.Token)
	}
	if left := number(t, server, "PTTL", "lock:plain"); left <= 0 || left > 60_000 {
		t.Errorf("PTTL is %d, want a minute at most", left)
	}
}

func TestOtherKeysEndByThemselves(t *testing.T) {
	server, store := given(t)
	const day = int64(24 * time.Hour / time.Millisecond)
	for name, ttl := range map[string]time.Duration{"short": time.Second, "{long}x": 72 * time.Hour} {
		req := request(name)
		req.TTL = ttl
		acquire(t, store, req)
		if _, err := store.Release(within(t), driver.ReleaseRequest{Name: name, Token: req.Token, Tombstone: 20 * time.Second}); err != nil {
			t.Fatal(err)
		}
	}
	found, err := server.Do("KEYS", "*").AsStrSlice()
	if err != nil || len(found) != 2 {
		t.Fatalf("keys %q, %v, want two companions", found, err)
	}
	for _, key := range found {
		if left := number(t, server, "PTTL", key); left <= 0 || left > 6*day+day/4 {
			t.Errorf("%s lasts %d ms", key, left)
		}
	}
	if left := number(t, server, "PTTL", "lock:~f:{long}lock:{long}x"); left < 5*day {
		t.Errorf("the companion of a lease of 3 days lasts %d ms, want twice that", left)
	}
}

func TestTheCompanionIsKeptUntilTheClockHasPassedItsFence(t *testing.T) {
	server, store := given(t)
	req := request("ahead")
	acquire(t, store, req)
	const day = int64(24 * time.Hour / time.Millisecond)
	ahead := time.Now().Add(72 * time.Hour).UnixMicro() // from before the clock was set back
	number(t, server, "HSET", "lock:~f:{lock:ahead}", "fence", strconv.FormatInt(ahead, 10))
	release(t, store, req, driver.Mine)
	if fence := acquire(t, store, request("ahead")); fence <= ahead {
		t.Fatalf("fence %d after %d", fence, ahead)
	}
	if left := number(t, server, "PTTL", "lock:~f:{lock:ahead}"); left <= 4*day {
		t.Errorf("the companion lasts %d ms, and its fence is three days ahead", left)
	}
}

func TestTheTimeOfACompanionIsNotSetByEachGrant(t *testing.T) {
	server, store := given(t)
	const day = int64(24 * time.Hour / time.Millisecond)
	pair := func(ttl time.Duration) {
		req := request("kept")
		req.TTL = ttl
		acquire(t, store, req)
		release(t, store, req, driver.Mine)
		if left := number(t, server, "PTTL", "lock:~f:{lock:kept}"); left < max(day, 2*ttl.Milliseconds()) {
			t.Errorf("after a lease of %v the companion lasts %d ms", ttl, left)
		}
	}
	pair(time.Minute)
	if counts := sent(t, server, func() { pair(time.Minute) }); counts["pexpire"] != 0 {
		t.Errorf("commands %v, want no PEXPIRE", counts)
	}
	pair(100 * time.Hour) // longer than what is left
}

func TestTombstonesThatAreOverAreRemoved(t *testing.T) {
	server, store := given(t)
	buried(t, server, store)
}

func buried(t *testing.T, server *redistest.Server, store *Store) {
	t.Helper()
	bury := func(n int, lasts time.Duration) {
		for range n {
			req := driver.ReleaseRequest{Name: "buried", Token: request("buried").Token, Tombstone: lasts}
			if _, err := store.Release(within(t), req); err != nil {
				t.Fatal(err)
			}
		}
	}
	acquire(t, store, request("buried"))
	bury(100, time.Millisecond)
	time.Sleep(2 * time.Millisecond)
	bury(64, time.Hour)
	if n := number(t, server, "HLEN", "lock:~f:{lock:buried}"); n < 64 || n > 64+64 {
		t.Errorf("the companion has %d fields, and 64 tombstones are needed", n)
	}
}

func TestTheCompanionOutlivesALeaseHeldForLong(t *testing.T) {
	server, store := given(t)
	companionOutlives(t, server, store)
}

func companionOutlives(t *testing.T, server *redistest.Server, store *Store) {
	t.Helper()
	req := request("weeks")
	fence := acquire(t, store, req)
	if done := number(t, server, "PEXPIRE", "lock:~f:{lock:weeks}", "70000"); done != 1 {
		t.Fatal("no companion found")
	}
	extend(t, store, req)
	if left := number(t, server, "PTTL", "lock:~f:{lock:weeks}"); left < int64(keep/2/time.Millisecond) {
		t.Errorf("the companion lasts %d ms", left)
	}
	if got := holder(t, store, req.Name); got.Fence != fence || got.Purpose != req.Purpose {
		t.Errorf("holder %+v, want fence %d", got, fence)
	}
}

func TestTheFenceIsAboveTheClockAndAboveTheLastOne(t *testing.T) {
	server, store := given(t)
	fenceAhead(t, server, store)
}

func fenceAhead(t *testing.T, server *redistest.Server, store *Store) {
	t.Helper()
	req := request("ahead")
	const ahead = "9000000000000001" // within 2^53, far beyond the clock
	do(t, server, "HSET", "lock:~f:{lock:ahead}", "fence", ahead)
	if fence := acquire(t, store, req); fence != 9000000000000002 {
		t.Errorf("fence %d after %s", fence, ahead)
	}
}

func TestForeignHoldersAreShown(t *testing.T) {
	server, store := given(t)
	do(t, server, "SET", "lock:theirs", "some-uuid", "NX", "PX", "30000")
	do(t, server, "SET", "lock:endless", "other-uuid")

	req := request("theirs")
	result, err := store.Acquire(within(t), req)
	if err != nil || result.Granted || len(result.State.Holders) != 1 {
		t.Fatalf("Acquire: %+v, %v, want a refusal", result, err)
	}
	got := result.State.Holders[0]
	if !got.Foreign() || got.Left <= 0 || got.Left > 30*time.Second || got.Fence != 0 || got.Age != 0 || got.Token != "some-uuid" {
		t.Errorf("holder %+v", got)
	}
	if got := holder(t, store, "endless"); got.Left >= 0 {
		t.Errorf("a lock without an expiry has %v left, want a negative time", got.Left)
	}
	release(t, store, req, driver.Taken)
	if results := store.Extend(within(t), []driver.ExtendRequest{{Name: "theirs", Token: req.Token, TTL: time.Hour}}); results[0].Answer != driver.Taken {
		t.Errorf("Extend: %+v, want taken", results[0])
	}
	if do(t, server, "GET", "lock:theirs") != "some-uuid" {
		t.Error("their lock was changed")
	}
}

func TestAForeignHolderIsNotTakenForTheLastOfOurs(t *testing.T) {
	server, store := given(t)
	req := request("both")
	fence := acquire(t, store, req)
	release(t, store, req, driver.Mine)
	do(t, server, "SET", "lock:both", "some-uuid", "NX", "PX", "30000")
	state, err := store.Inspect(within(t), "both")
	if err != nil || len(state.Holders) != 1 || state.Fence != fence {
		t.Fatalf("state %+v, %v, want one holder and the last fence %d", state, err, fence)
	}
	if got := state.Holders[0]; got.Fence != 0 || got.Age != 0 || got.Purpose != "" {
		t.Errorf("holder %+v has what belongs to the last one", got)
	}
}

// textbook is the release script in the documentation of SET.
const textbook = `if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("del",KEYS[1]) else return 0 end`

func TestTheTextbookReleaseWorksOnOurKey(t *testing.T) {
	server, store := given(t)
	req := request("textbook")
	acquire(t, store, req)
	if n := number(t, server, "EVAL", textbook, "1", "lock:textbook", "not the token"); n != 0 {
		t.Error("released by another token")
	}
	if set := server.Do("SET", "lock:textbook", "theirs", "NX", "PX", "1000").Error(); !rueidis.IsRedisNil(set) {
		t.Errorf("SET NX on a held lock: %v, want nil", set)
	}
	if n := number(t, server, "EVAL", textbook, "1", "lock:textbook", req.Token); n != 1 {
		t.Error("not released by its token")
	}
	release(t, store, req, driver.Gone)
	acquire(t, store, request("textbook"))
}

func TestAListLeavesOutWhatIsNotALock(t *testing.T) {
	server, store := given(t)
	acquire(t, store, request("lock"))
	gone := request("gone")
	_, err := store.Release(within(t), driver.ReleaseRequest{Name: gone.Name, Token: gone.Token, Tombstone: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	do(t, server, "HSET", "lock:a hash", "field", "value")
	do(t, server, "SET", "another key", "value")
	do(t, server, "SET", "lock:a}b", "not a name of ours")
	var names []string
	for state, err := range store.List(within(t), "*") {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, state.Name)
	}
	if len(names) != 1 || names[0] != "lock" {
		t.Errorf("listed %q, want lock alone", names)
	}
}

func TestAPrefixOfOnesOwnIsKeptTo(t *testing.T) {
	server, ours := given(t)
	store := openWith(t, Options{Prefix: "app[*]{x}:", Client: rueidis.ClientOption{InitAddress: []string{server.Addr()}}})
	req := request("name")
	acquire(t, ours, request("name"))
	acquire(t, store, req)
	inbox := listen(t, store)
	waiter := waiting(t, store, req.Name, inbox, 0)
	listed := 0
	for range store.List(within(t), "*") {
		listed++
	}
	if listed != 1 {
		t.Errorf("%d names listed, want 1", listed)
	}
	release(t, store, req, driver.Mine)
	told(t, inbox, waiter)
	if n := number(t, server, "EXISTS", "app[*]{x}:~f:{x}app[*]{x}:name"); n != 1 {
		t.Error("the companion is not where it should be")
	}
}
