package redisstore

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfastlock/holdfast"
	"github.com/holdfastlock/holdfast/internal/redistest"
)

// locker returns a Locker on the server at address, as a process of its own
// would have it.
func locker(t *testing.T, address string, config holdfast.Config) *holdfast.Locker {
	t.Helper()
	return lockerOn(t, open(t, address), config)
}

func lockerOn(t *testing.T, store *Store, config holdfast.Config) *holdfast.Locker {
	t.Helper()
	l, err := holdfast.New(store, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		l.Close(ctx)
	})
	return l
}

func hold(t *testing.T, l *holdfast.Locker, opts ...holdfast.AcquireOption) *holdfast.Lease {
	t.Helper()
	lease, err := l.Acquire(within(t), "report", opts...)
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

// gone waits until the key has expired.
func gone(t *testing.T, server *redistest.Server) {
	t.Helper()
	eventually(t, "the key is gone", func() bool { return number(t, server, "EXISTS", "lock:report") == 0 })
}

func wantLost(t *testing.T, err error, reason holdfast.LostReason) {
	t.Helper()
	var lost *holdfast.LostError
	if !errors.As(err, &lost) || lost.Reason != reason {
		t.Errorf("the error is %v, want it lost because %v", err, reason)
	}
}

// setNX is the textbook's acquire of another program, for a minute.
func setNX(t *testing.T, server *redistest.Server, token string) bool {
	t.Helper()
	err := server.Do("SET", "lock:report", token, "NX", "PX", "60000").Error()
	if err != nil && !rueidis.IsRedisNil(err) {
		t.Fatal(err)
	}
	return err == nil
}

// TestTheSleeperDoesNotFreeItsSuccessor is the textbook's practice test: a
// holder sleeps past its TTL, another acquires, and the first releases.
func TestTheSleeperDoesNotFreeItsSuccessor(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	sleeper := hold(t, locker(t, server.Addr(), holdfast.Config{}), holdfast.WithTTL(200*time.Millisecond), holdfast.WithoutKeepAlive())
	successor := hold(t, locker(t, server.Addr(), holdfast.Config{})) // waits until the TTL is over

	wantLost(t, sleeper.Release(within(t)), holdfast.LostExpired)
	if got := do(t, server, "GET", "lock:report"); got != successor.Token() {
		t.Errorf("after the sleeper's release the key holds %q, want the successor's token", got)
	}
	if err := successor.Confirm(within(t)); err != nil {
		t.Errorf("the successor no longer holds: %v", err)
	}
	if sleeper.Fence() >= successor.Fence() {
		t.Errorf("the sleeper's fence %d is not lower than the successor's %d", sleeper.Fence(), successor.Fence())
	}
}

// The three wrong releases, as they are written again and again. Each does its
// damage here, and ours does not in the same place.

func TestABlindDELFreesTheSuccessor(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	do(t, server, "SET", "lock:report", "first", "NX", "PX", "50")
	gone(t, server) // the first sleeps past its TTL
	do(t, server, "SET", "lock:report", "second", "NX", "PX", "60000")
	do(t, server, "DEL", "lock:report") // the first "releases"

	if !setNX(t, server, "third") {
		t.Error("DEL did no damage: this test shows nothing")
	}
}

func TestGETInTheProgramAndThenDELFreesTheSuccessor(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	do(t, server, "SET", "lock:report", "first", "NX", "PX", "300")
	mine := do(t, server, "GET", "lock:report") == "first" // it is, still
	gone(t, server)                                        // the program is paused between its two steps
	do(t, server, "SET", "lock:report", "second", "NX", "PX", "60000")
	if mine {
		do(t, server, "DEL", "lock:report")
	}

	if !setNX(t, server, "third") {
		t.Error("GET and DEL did no damage: this test shows nothing")
	}
}

func TestNeverReleasingKeepsTheOthersOutForTheWholeTTL(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	do(t, server, "SET", "lock:report", "first", "NX", "PX", "60000")
	// The job takes no time, and nobody releases.
	if setNX(t, server, "second") {
		t.Error("the name was free: this test shows nothing")
	}
	if left := number(t, server, "PTTL", "lock:report"); left < 50_000 {
		t.Errorf("the others wait %d ms", left)
	}
}

func TestOurReleaseDoesNoneOfThis(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	first := hold(t, locker(t, server.Addr(), holdfast.Config{}), holdfast.WithTTL(100*time.Millisecond), holdfast.WithoutKeepAlive())
	gone(t, server)
	do(t, server, "SET", "lock:report", "second", "NX", "PX", "60000")
	if err := first.Release(within(t)); !errors.Is(err, holdfast.ErrLost) {
		t.Errorf("the late release says %v", err)
	}
	if setNX(t, server, "third") {
		t.Error("the late release freed the second's lock")
	}

	do(t, server, "DEL", "lock:report")
	if err := hold(t, locker(t, server.Addr(), holdfast.Config{})).Release(within(t)); err != nil {
		t.Fatal(err)
	}
	if !setNX(t, server, "next") {
		t.Error("after a release the others still wait")
	}
}
