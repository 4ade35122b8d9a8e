package redisstore

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfastlock/holdfast"
	"github.com/holdfastlock/holdfast/driver"
	"github.com/holdfastlock/holdfast/internal/redistest"
)

// strict returns a store that requires noeviction and fails the test by a
// warning.
func strict(t *testing.T, server *redistest.Server) *Store {
	t.Helper()
	return openWith(t, Options{
		Client:            rueidis.ClientOption{InitAddress: []string{server.Addr()}},
		RequireNoEviction: true,
		Warn:              func(text string) { t.Errorf("warned: %s", text) },
	})
}

func policy(t *testing.T, server *redistest.Server, policy string) {
	t.Helper()
	do(t, server, "CONFIG", "SET", "maxmemory-policy", policy)
}

func TestAnEvictingServerIsRefusedWhereThatIsRequired(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	policy(t, server, "volatile-ttl")
	store := strict(t, server)
	for way, grant := range grants {
		_, err := grant(within(t), store, request("x"))
		wantKind(t, err, driver.ErrMisconfigured)
		if text := err.Error(); !strings.Contains(text, "volatile-ttl") || !strings.Contains(text, "CONFIG SET") {
			t.Errorf("%s: %s", way, text)
		}
	}
	if n := number(t, server, "DBSIZE"); n != 0 {
		t.Errorf("%d keys were written", n)
	}
	policy(t, server, noEviction)
	acquire(t, store, request("x")) // what was repaired is seen at once
}

func TestThePolicyIsLookedUpAgainAfterAWhileAndAfterAConnectionWasLost(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	store := strict(t, server)
	refused := func() bool {
		_, err := store.Acquire(within(t), request("x"))
		return errors.Is(err, driver.ErrMisconfigured)
	}
	counts := sent(t, server, func() {
		for _, name := range []string{"a", "b", "c"} {
			acquire(t, store, request(name))
		}
	})
	if counts["info"] > 2 { // one is what asks for the counts
		t.Errorf("INFO was sent %d times for three grants", counts["info"]-1)
	}
	held := request("held")
	acquire(t, store, held)
	policy(t, server, "allkeys-lru")
	looked := func(at time.Time) {
		store.eviction.mu.Lock()
		defer store.eviction.mu.Unlock()
		store.eviction.looked = at
	}
	looked(time.Now().Add(-lookEvery))
	if !refused() {
		t.Error("a while later the name is granted")
	}
	extend(t, store, held) // what is held is held
	release(t, store, held, driver.Mine)

	policy(t, server, noEviction)
	eventually(t, "the server is right again", func() bool { return !refused() })
	looked(time.Now().Add(time.Hour))
	policy(t, server, "allkeys-lru")
	server.Do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
	eventually(t, "the next server's policy is looked up", refused)
}

func TestWhoMayNotAskForThePolicyIsToldWhatIsMissing(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	do(t, server, "ACL", "SETUSER", "default", "-info")
	_, err := strict(t, server).Acquire(within(t), request("x"))
	wantKind(t, err, driver.ErrRefused)
	if err == nil || !strings.Contains(err.Error(), "+info") {
		t.Errorf("the error is %v", err)
	}
	acquire(t, open(t, server.Addr()), request("x")) // who does not require it needs no right
}

func TestALeaseWhoseKeyWasEvictedIsLostWithThatReason(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	lease := hold(t, locker(t, server.Addr(), holdfast.Config{TTL: 600 * time.Millisecond}))
	policy(t, server, "allkeys-random")
	do(t, server, "CONFIG", "SET", "maxmemory", "1")
	eventually(t, "the key is evicted", func() bool {
		server.Do("SET", "other", "") // what makes the server evict
		return number(t, server, "EXISTS", "lock:report") == 0
	})
	<-lease.Context().Done()
	wantLost(t, context.Cause(lease.Context()), holdfast.LostGone)
	const why = "the server has evicted keys: maxmemory-policy allkeys-random, evicted_keys "
	if text := context.Cause(lease.Context()).Error(); !strings.Contains(text, why) {
		t.Errorf("the loss is %q, want %q in it", text, why)
	}
}

func TestALeaseWhoseKeyWasDeletedIsNotSaidToBeEvicted(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	policy(t, server, "allkeys-random") // and has evicted nothing
	lease := hold(t, locker(t, server.Addr(), holdfast.Config{}))
	do(t, server, "DEL", "lock:report")
	err := lease.Confirm(within(t))
	wantLost(t, err, holdfast.LostGone)
	if strings.Contains(err.Error(), "keys") {
		t.Errorf("the loss is %q", err)
	}
}
