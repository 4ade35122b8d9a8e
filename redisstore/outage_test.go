package redisstore

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfastlock/holdfast"
	"github.com/holdfastlock/holdfast/internal/redistest"
)

// What becomes of a lease when the network or the server fails.

func TestAHolderCutOffJustAfterARenewalHasStoppedWhenAnotherStarts(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	other := locker(t, server.Addr(), holdfast.Config{})
	for range 5 {
		proxy := redistest.NewProxy(t, server.Addr())
		var once sync.Once
		cutOff := locker(t, proxy.Addr(), holdfast.Config{
			TTL: time.Second,
			Events: holdfast.Events{Extended: func(holdfast.Event) {
				once.Do(proxy.Drop) // black from now on
			}},
		})
		first := hold(t, cutOff)
		second := hold(t, other)
		// By the clock, which is what a holder has to go by: on a busy machine the
		// goroutine that ends the context may be late.
		if over := time.Until(first.Deadline()); over > 0 || first.Valid(0) {
			t.Errorf("two believe to hold, the first for %v more", over)
		}
		<-first.Context().Done()
		wantLost(t, context.Cause(first.Context()), holdfast.LostExpired)
		if second.Fence() <= first.Fence() {
			t.Errorf("fence %d after %d", second.Fence(), first.Fence())
		}
		if err := second.Release(within(t)); err != nil {
			t.Error(err)
		}
	}
}

func TestAnAcquireWhoseReplyIsLostLeavesNoKey(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	proxy := redistest.NewProxy(t, server.Addr())
	l := locker(t, proxy.Addr(), holdfast.Config{TTL: time.Hour})
	before := hold(t, l) // the connection is made, the script known
	if err := before.Release(within(t)); err != nil {
		t.Fatal(err)
	}
	proxy.DropReplies()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := l.TryAcquire(ctx, "report"); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("the error is %v", err)
	}
	eventually(t, "the acquire has arrived and was granted", func() bool {
		return number(t, server, "HGET", "lock:~f:{lock:report}", "fence") > before.Fence()
	})
	proxy.Heal()
	gone(t, server) // it would last an hour
}

func TestARenewalSurvivesWhatPasses(t *testing.T) {
	server := redistest.Start(t, redistest.Options{AppendOnly: true})
	var renewed atomic.Int32
	l := locker(t, server.Addr(), holdfast.Config{TTL: 3 * time.Second, Events: holdfast.Events{
		Extended: func(holdfast.Event) { renewed.Add(1) },
	}})
	lease := hold(t, l)
	for what, happens := range map[string]func(){
		"SCRIPT FLUSH":              func() { do(t, server, "SCRIPT", "FLUSH") },
		"CLIENT KILL":               func() { server.Do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes") },
		"a restart with its data":   func() { server.Restart(true) },
		"a server stopped for 0.5s": func() { server.Pause(); defer server.Resume(); <-time.After(500 * time.Millisecond) },
	} {
		happens()
		before := renewed.Load()
		eventually(t, "renewed after "+what, func() bool { return renewed.Load() > before || lease.Context().Err() != nil })
		if err := context.Cause(lease.Context()); err != nil {
			t.Fatalf("after %s: %v", what, err)
		}
	}
	if got := do(t, server, "GET", "lock:report"); got != lease.Token() {
		t.Errorf("the key holds %q", got)
	}
	if err := lease.Release(within(t)); err != nil {
		t.Error(err)
	}
}

func TestAWipedLockIsReportedLostOnceAndFencesGrow(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	var losses atomic.Int32
	l := locker(t, server.Addr(), holdfast.Config{TTL: 600 * time.Millisecond, Events: holdfast.Events{
		Lost: func(holdfast.Event) { losses.Add(1) },
	}})
	var last int64
	var happened int32
	for what, happens := range map[string]func(){
		"FLUSHALL":               func() { do(t, server, "FLUSHALL") },
		"DEL":                    func() { do(t, server, "DEL", "lock:report") },
		"a restart without data": func() { server.Restart(false) },
	} {
		lease := hold(t, l)
		if lease.Fence() <= last {
			t.Errorf("before %s: fence %d after %d", what, lease.Fence(), last)
		}
		last = lease.Fence()
		happens()
		<-lease.Context().Done()
		// A restart may take longer than what is left of the lease.
		if err := context.Cause(lease.Context()); !errors.Is(err, holdfast.ErrLost) {
			t.Errorf("after %s: %v", what, err)
		}
		if err := lease.Release(within(t)); !errors.Is(err, holdfast.ErrLost) {
			t.Errorf("released after %s: %v", what, err)
		}
		happened++
		eventually(t, "the loss is reported", func() bool { return losses.Load() >= happened })
	}
	if n := losses.Load(); n != happened {
		t.Errorf("%d losses were reported %d times", happened, n)
	}
	if fence := hold(t, l).Fence(); fence <= last {
		t.Errorf("at the end: fence %d after %d", fence, last)
	}
}

func TestAHeldLockSurvivesFullMemoryAndANewOneIsRefused(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	var renewed atomic.Int32
	l := locker(t, server.Addr(), holdfast.Config{TTL: 600 * time.Millisecond, Events: holdfast.Events{
		Extended: func(holdfast.Event) { renewed.Add(1) },
	}})
	lease := hold(t, l)
	do(t, server, "CONFIG", "SET", "maxmemory", "1")
	before := renewed.Load()
	eventually(t, "renewed several times", func() bool { return renewed.Load() > before+5 || lease.Context().Err() != nil })
	if err := context.Cause(lease.Context()); err != nil {
		t.Errorf("the held lock: %v", err)
	}
	if _, err := l.TryAcquire(within(t), "other"); !errors.Is(err, holdfast.ErrRefused) || errors.Is(err, holdfast.ErrHeld) {
		t.Errorf("a new one: %v", err)
	}
	if err := lease.Release(within(t)); err != nil || number(t, server, "EXISTS", "lock:report") != 0 {
		t.Errorf("released: %v", err)
	}
}

func TestAStoppedServerIsUnreachableAndNotHeld(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	l := locker(t, server.Addr(), holdfast.Config{StoreTimeout: 300 * time.Millisecond})
	hold(t, l)
	server.Kill()
	_, err := l.TryAcquire(within(t), "other")
	if !errors.Is(err, holdfast.ErrUnreachable) || errors.Is(err, holdfast.ErrHeld) {
		t.Errorf("the error is %v", err)
	}
}
