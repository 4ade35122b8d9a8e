package redisstore

import (
	"context"
	"errors"
	"maps"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfastlock/holdfast/driver"
	"github.com/holdfastlock/holdfast/internal/redistest"
)

// What a hand-off costs, and what becomes of it when something fails.

// cycle releases the name for one waiter after the other, n times, each of which
// goes to the end of the queue again. The first holds the name.
func cycle(t *testing.T, store *Store, inbox *listened, waiters []driver.QueueRequest, n int) {
	t.Helper()
	for range n {
		last := waiters[0]
		release(t, store, last.AcquireRequest, driver.Mine)
		waiters = waiters[1:]
		told(t, inbox, waiters[0])
		if got := holder(t, store, last.Name).Token; got != waiters[0].Token {
			t.Fatalf("held by %q, want the first waiter", got)
		}
		claim(t, store, waiters[0])
		waiters = append(waiters, waiting(t, store, last.Name, inbox, len(waiters)-1))
	}
}

// crowd has the name held by the first of n+1.
func crowd(t *testing.T, store *Store, name string, inbox *listened, n int) []driver.QueueRequest {
	t.Helper()
	held := driver.QueueRequest{AcquireRequest: request(name), Inbox: inbox.Address(), Keep: time.Minute}
	claim(t, store, held)
	waiters := []driver.QueueRequest{held}
	for i := range n {
		waiters = append(waiters, waiting(t, store, name, inbox, i))
	}
	return waiters
}

func TestAHandOffCostsTheSameWithOneWaiterAsWithAThousand(t *testing.T) {
	server, store := given(t)
	inbox := listen(t, store)
	var costs []map[string]int
	for _, n := range []int{1, 1, 1000} { // the first teaches the server the scripts
		waiters := crowd(t, store, request("").Token, inbox, n)
		costs = append(costs, sent(t, server, func() {
			release(t, store, waiters[0].AcquireRequest, driver.Mine)
			told(t, inbox, waiters[1])
			claim(t, store, waiters[1])
		}))
	}
	if !maps.Equal(costs[1], costs[2]) {
		t.Errorf("with one waiter %v, with a thousand %v", costs[1], costs[2])
	}
	if costs[2]["evalsha"] != 2 || costs[2]["publish"] != 1 {
		t.Errorf("commands %v, want two scripts and one message", costs[2])
	}
}

func TestAPairWithoutWaitersPaysNoMoreThanOneCallForTheQueue(t *testing.T) {
	server, store := given(t)
	pair := func() {
		req := request("alone")
		acquire(t, store, req)
		release(t, store, req, driver.Mine)
	}
	pair()
	counts := sent(t, server, pair)
	delete(counts, "info")
	want := map[string]int{
		"evalsha": 2, "hmget": 1, "time": 1, "set": 1, "hset": 1, "get": 1, "del": 1, "zpopmin": 1,
	}
	if !maps.Equal(counts, want) {
		t.Errorf("commands %v, want %v", counts, want)
	}
}

func TestTheServerMayForgetTheScriptsBetweenTheStepsOfAHandOff(t *testing.T) {
	server, store := given(t)
	inbox := listen(t, store)
	flush := func() { do(t, server, "SCRIPT", "FLUSH") }
	waiters := crowd(t, store, "flushed", inbox, 1)
	flush()
	waits(t, store, waiters[1], 0)
	flush()
	release(t, store, waiters[0].AcquireRequest, driver.Mine)
	told(t, inbox, waiters[1])
	flush()
	claim(t, store, waiters[1])
}

func TestAHandOffWhoseMessageIsLostIsFoundByAsking(t *testing.T) {
	server, proxy, store := behindProxy(t)
	direct := open(t, server.Addr())
	inbox := listen(t, store)
	held := request("lost")
	acquire(t, direct, held)
	req := waiting(t, store, "lost", inbox, 0)
	proxy.DropReplies()
	release(t, direct, held, driver.Mine)
	if got := holder(t, direct, "lost"); got.Token != req.Token || got.Left > driver.Claim {
		t.Errorf("held by %+v, want the waiter for its claim", got)
	}
	proxy.Heal()
	listens(t, inbox) // hence it asks
	claim(t, direct, req)
	select {
	case got := <-inbox.handed:
		t.Errorf("told %+v: this test shows nothing", got)
	default:
	}
}

// TestAnInboxWhoseConnectionIsKilledLosesItsTurnAndAsksAgain: killed between
// enqueue and hand-off.
func TestAnInboxWhoseConnectionIsKilledLosesItsTurnAndAsksAgain(t *testing.T) {
	server, proxy, store := behindProxy(t)
	direct := open(t, server.Addr())
	inbox := listen(t, store)
	held := request("killed")
	acquire(t, direct, held)
	req := waiting(t, store, "killed", inbox, 0)
	proxy.Drop() // it can't come back yet
	do(t, server, "CLIENT", "KILL", "TYPE", "pubsub")
	release(t, direct, held, driver.Mine)
	if n := number(t, server, "EXISTS", "lock:killed", "lock:~q:{lock:killed}"); n != 0 {
		t.Errorf("%d keys, want a free name without a queue", n)
	}
	proxy.Heal()
	listens(t, inbox)
	eventually(t, "it is granted by asking again", func() bool {
		result, err := store.Enqueue(within(t), req)
		return err == nil && result.Granted
	})
}

func TestAKilledWaiterIsPassedOverInTheSameRelease(t *testing.T) {
	server, store := given(t)
	inbox := listen(t, store)
	doomed := open(t, server.Addr())
	lost := listen(t, doomed)
	held := request("report")
	acquire(t, store, held)
	waiting(t, doomed, "report", lost, 0)
	req := waiting(t, store, "report", inbox, 1)
	doomed.Close()
	eventually(t, "the server has noticed", func() bool { return subscribers(t, server, lost) == 0 })
	release(t, store, held, driver.Mine)
	told(t, inbox, req)
	claim(t, store, req)
}

func TestWaitersFindTheirOrderAgainAfterAWipe(t *testing.T) {
	server, store := given(t)
	inbox := listen(t, store)
	waiters := crowd(t, store, "wiped", inbox, 100)
	do(t, server, "FLUSHALL")
	claim(t, store, waiters[50]) // who asks first
	for i, req := range waiters[51:] {
		waits(t, store, req, i)
	}
	cycle(t, store, inbox, waiters[50:], 130) // nobody else was met: none is open
}

func TestAHandOffGoesOnWithFullMemory(t *testing.T) {
	server, store := given(t)
	inbox := listen(t, store)
	waiters := crowd(t, store, "full", inbox, 2)
	short := waiters[1] // what is left of its claim is more than it asks for
	short.TTL = time.Second
	do(t, server, "CONFIG", "SET", "maxmemory", "1")

	_, err := store.Enqueue(within(t), driver.QueueRequest{AcquireRequest: request("full"), Inbox: inbox.Address(), Keep: time.Minute})
	wantKind(t, err, driver.ErrRefused)
	waits(t, store, waiters[2], 1) // who has a place may ask
	for _, next := range []driver.QueueRequest{short, waiters[2]} {
		release(t, store, waiters[0].AcquireRequest, driver.Mine)
		told(t, inbox, next)
		claim(t, store, next)
		waiters[0] = next
	}
	release(t, store, waiters[0].AcquireRequest, driver.Mine)
	if n := number(t, server, "EXISTS", "lock:full"); n != 0 {
		t.Error("the name stays locked")
	}
}

func TestAnEnqueueWhoseReplyIsLostIsRecognised(t *testing.T) {
	server, proxy, store := behindProxy(t)
	direct := open(t, server.Addr())
	inbox := listen(t, direct)
	lose := func(req driver.QueueRequest) {
		t.Helper()
		proxy.DropRepliesTo(req.Name)
		if _, err := store.Enqueue(within(t), req); !driver.Unknown(err) {
			t.Fatalf("the outcome should be unknown: %v", err)
		}
		proxy.Heal()
	}
	ask := func() driver.QueueRequest {
		return driver.QueueRequest{AcquireRequest: request("lost reply"), Inbox: inbox.Address(), Keep: time.Minute}
	}
	crowd(t, direct, "warm", inbox, 1) // teaches the server the script
	first := ask()
	lose(first) // granted
	fence := holder(t, direct, first.Name).Fence
	if again := claim(t, direct, first); again != fence {
		t.Errorf("fence %d, then %d", fence, again)
	}
	second := ask()
	lose(second) // queued
	waits(t, direct, second, 0)

	third := ask()
	third.Previous = first.Token
	lose(third) // handed on, and queued
	told(t, inbox, second)
	result, err := direct.Enqueue(within(t), third)
	if err != nil || result.Granted || result.Before != 0 || result.Previous != driver.Taken {
		t.Errorf("asked again: %+v, %v", result, err)
	}
	if n := number(t, server, "ZCARD", "lock:~q:{lock:lost reply}"); n != 1 {
		t.Errorf("%d places, want 1", n)
	}
	claim(t, direct, second)
}

func TestAnEnqueueThatArrivesLateFindsItsTombstone(t *testing.T) {
	server, proxy, store := behindProxy(t)
	direct := open(t, server.Addr())
	inbox := listen(t, direct)
	req := driver.QueueRequest{AcquireRequest: request("late"), Inbox: inbox.Address(), Keep: time.Minute}
	proxy.Drop()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := store.Enqueue(ctx, req); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	_, err := direct.Release(within(t), driver.ReleaseRequest{Name: req.Name, Token: req.Token, Inbox: req.Inbox, Tombstone: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	before := server.CommandCounts()["evalsha"] + server.CommandCounts()["eval"]
	proxy.Heal()
	eventually(t, "the late request arrives", func() bool {
		return server.CommandCounts()["evalsha"]+server.CommandCounts()["eval"] > before
	})
	if n := number(t, server, "EXISTS", "lock:late", "lock:~q:{lock:late}"); n != 0 {
		t.Error("the late request left a key")
	}
}

func TestAQueueEndsByItself(t *testing.T) {
	server, store := given(t)
	inbox := listen(t, store)
	waiters := crowd(t, store, "forgotten", inbox, 1)
	hasty := waiters[1]
	hasty.Keep = time.Second
	waits(t, store, hasty, 0)
	if left := number(t, server, "PTTL", "lock:~q:{lock:forgotten}"); left <= 30_000 || left > 60_000 {
		t.Errorf("the queue is kept for %d ms, want a minute", left)
	}
}

func TestAMissingRightLeavesNothingQueuedOrLocked(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	for _, right := range []string{"zadd", "zrank", "zrem", "pexpire", "hset", "set", "time"} {
		store := asUser(t, server, "no-"+right, "~lock:*", "&lock:*", "+@all", "-"+right)
		req := driver.QueueRequest{AcquireRequest: request(right), Inbox: "lock:~i:x", Keep: time.Minute}
		_, err := store.Enqueue(within(t), req)
		if err != nil {
			wantKind(t, err, driver.ErrRefused)
			if n := number(t, server, "EXISTS", "lock:"+right); n != 0 {
				t.Errorf("%s: the name stays locked", right)
			}
			continue
		}
		req.AcquireRequest = request(right) // where the right is needed to wait
		_, err = store.Enqueue(within(t), req)
		wantKind(t, err, driver.ErrRefused)
	}
}

func TestAHandOffThatIsRefusedFreesTheName(t *testing.T) {
	server, store := given(t)
	inbox := listen(t, store)
	waiters := crowd(t, store, "refused", inbox, 1)
	release(t, asUser(t, server, "no-set", "~lock:*", "&lock:*", "+@all", "-set"), waiters[0].AcquireRequest, driver.Mine)
	told(t, inbox, waiters[1])
	claim(t, store, waiters[1])
}

// met has the store remember that others lock the name too.
func met(t *testing.T, server *redistest.Server, store *Store, name string, inbox *listened) {
	t.Helper()
	do(t, server, "SET", "lock:"+name, "some-uuid", "NX", "PX", "60000")
	req := waiting(t, store, name, inbox, 0)
	leave := driver.ReleaseRequest{Name: name, Token: req.Token, Inbox: req.Inbox}
	if _, err := store.Release(within(t), leave); err != nil {
		t.Fatal(err)
	}
	if left := number(t, server, "PTTL", "lock:~f:{lock:"+name+"}"); left <= 0 {
		t.Errorf("what is known of others lasts %d ms", left)
	}
	if n := number(t, server, "ZCARD", "lock:~q:{lock:"+name+"}"); n != 0 {
		t.Errorf("%d places are left", n)
	}
	do(t, server, "DEL", "lock:"+name)
}

// TestEvery64thReleaseIsOpenIfOthersLockTheNameToo, and the first waiter keeps
// its place and is told.
func TestEvery64thReleaseIsOpenIfOthersLockTheNameToo(t *testing.T) {
	server, store := given(t)
	inbox := listen(t, store)
	met(t, server, store, "shared", inbox)
	waiters := crowd(t, store, "shared", inbox, 2)
	var open []int
	for i := range 1100 {
		last := waiters[0]
		release(t, store, last.AcquireRequest, driver.Mine)
		told(t, inbox, waiters[1])
		if number(t, server, "EXISTS", "lock:shared") == 0 {
			open = append(open, i+1)
		}
		claim(t, store, waiters[1])
		waiters = append(waiters[1:], waiting(t, store, "shared", inbox, 1))
	}
	if len(open) != 16 || open[0] != 64 || open[15] != 1024 {
		t.Errorf("open were %v, want each 64th of 1024", open)
	}
}

// TestOthersAreNotStarved has a queue that is never empty, and somebody who
// knows nothing of it.
func TestOthersAreNotStarved(t *testing.T) {
	t.Run("by many", func(t *testing.T) { othersAreNotStarvedBy(t, 2) })
	t.Run("by one that follows itself", func(t *testing.T) { othersAreNotStarvedBy(t, 0) })
}

// othersAreNotStarvedBy a holder and so many waiters, each of which lines up
// again when it has had its turn.
func othersAreNotStarvedBy(t *testing.T, n int) {
	server, store := given(t)
	inbox := listen(t, store)
	met(t, server, store, "shared", inbox)
	waiters := crowd(t, store, "shared", inbox, n)
	var inside, foreign atomic.Int32
	ended := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	defer func() { cancel(); <-ended }()
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			if server.Do("SET", "lock:shared", "some-uuid", "NX", "PX", "60000").Error() != nil {
				continue
			}
			foreign.Add(1)
			if inside.Load() != 0 {
				t.Error("they and we hold it")
			}
			server.Do("EVAL", textbookRelease, "1", "lock:shared", "some-uuid")
		}
	}()
	eventually(t, "others had the name three times", func() bool {
		inside.Store(0)
		next := driver.QueueRequest{AcquireRequest: request("shared"), Inbox: inbox.Address(), Keep: time.Minute, Previous: waiters[0].Token}
		waiters = append(waiters[1:], next)
		if _, err := store.Enqueue(within(t), next); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the first waiter is granted the name", func() bool {
			result, err := store.Enqueue(within(t), waiters[0])
			return err == nil && result.Granted
		})
		inside.Store(1)
		return foreign.Load() >= 3
	})
}
