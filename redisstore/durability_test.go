package redisstore

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfastlock/holdfast"
	"github.com/holdfastlock/holdfast/driver"
	"github.com/holdfastlock/holdfast/internal/redistest"
)

// replicated starts a primary with so many replicas.
func replicated(t *testing.T, replicas int, options redistest.Options) (primary *redistest.Server, all []*redistest.Server) {
	t.Helper()
	options.Args = append(options.Args, "--repl-diskless-sync-delay", "0")
	primary = redistest.Start(t, options)
	for range replicas {
		follower := options
		follower.Args = append([]string{"--replicaof", "127.0.0.1", strconv.Itoa(primary.Port())}, options.Args...)
		all = append(all, redistest.Start(t, follower))
	}
	eventually(t, "the replicas follow", func() bool {
		do(t, primary, "SET", "before", "") // WAIT answers for what its connection wrote
		return number(t, primary, "WAIT", strconv.Itoa(replicas), "100") == int64(replicas)
	})
	return primary, all
}

// stopped stops a replica until the test ends or resume is called.
func stopped(replica *redistest.Server) (resume func()) {
	replica.Pause()
	return replica.Resume
}

func durable(t *testing.T, address string, options Options) *Store {
	t.Helper()
	options.Client = rueidis.ClientOption{InitAddress: []string{address}}
	return openWith(t, options)
}

func queued(req driver.AcquireRequest) driver.QueueRequest {
	return driver.QueueRequest{AcquireRequest: req, Inbox: "lock:~i:nobody", Keep: time.Minute}
}

// grants are the ways to be granted a name.
var grants = map[string]func(context.Context, *Store, driver.AcquireRequest) (driver.AcquireResult, error){
	"acquire": func(ctx context.Context, s *Store, req driver.AcquireRequest) (driver.AcquireResult, error) {
		return s.Acquire(ctx, req)
	},
	"acquire without a fence": func(ctx context.Context, s *Store, req driver.AcquireRequest) (driver.AcquireResult, error) {
		req.NoFence, req.Purpose = true, ""
		return s.Acquire(ctx, req)
	},
	"enqueue": func(ctx context.Context, s *Store, req driver.AcquireRequest) (driver.AcquireResult, error) {
		result, err := s.Enqueue(ctx, queued(req))
		return result.AcquireResult, err
	},
}

func TestAGrantSaysHowManyReplicasHaveIt(t *testing.T) {
	primary, replicas := replicated(t, 2, redistest.Options{})
	store := durable(t, primary.Addr(), Options{WaitReplicas: 2, WaitTimeout: patience})
	for way, grant := range grants {
		req := request(way)
		for range 2 { // again for the token that has it
			result, err := grant(within(t), store, req)
			if err != nil || !result.Granted || result.Replicas != 2 {
				t.Errorf("%s: %+v, %v, want 2 replicas", way, result, err)
			}
		}
		for _, replica := range replicas {
			if got := do(t, replica, "GET", "lock:"+way); got != req.Token {
				t.Errorf("%s: a replica has %q", way, got)
			}
		}
	}
}

func TestAGrantThatTooFewReplicasHaveIsTakenBack(t *testing.T) {
	primary, replicas := replicated(t, 2, redistest.Options{})
	defer stopped(replicas[0])()
	store := durable(t, primary.Addr(), Options{WaitReplicas: 2, WaitTimeout: time.Second})
	other := open(t, primary.Addr())
	for way, grant := range grants {
		req := request(way)
		result, err := grant(within(t), store, req)
		wantKind(t, err, driver.ErrRefused)
		if result.Granted || driver.Unknown(err) || !strings.Contains(err.Error(), "after 1s 1 of 2 replicas") {
			t.Errorf("%s: %+v, %v", way, result, err)
		}
		acquire(t, other, request(way)) // free at once
		if _, err := other.Acquire(within(t), req); !errors.Is(err, driver.ErrWithdrawn) {
			t.Errorf("%s: the token may acquire again: %v", way, err)
		}
	}
}

func TestANameThatIsHeldWaitsForNoReplica(t *testing.T) {
	primary, _ := replicated(t, 0, redistest.Options{})
	acquire(t, open(t, primary.Addr()), request("x"))
	store := durable(t, primary.Addr(), Options{WaitReplicas: 1, WaitTimeout: 10 * patience})
	for way, grant := range grants {
		if result, err := grant(within(t), store, request("x")); err != nil || result.Granted || len(result.State.Holders) != 1 {
			t.Errorf("%s: %+v, %v", way, result, err)
		}
	}
}

// waitsFor begins an acquire and returns when the server makes it wait.
func waitsFor(t *testing.T, server *redistest.Server, acquire func() error) <-chan error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- acquire() }()
	eventually(t, "the grant waits", func() bool {
		return strings.Contains(do(t, server, "INFO", "clients"), "blocked_clients:1")
	})
	return done
}

func TestOtherCallsGoOnWhileAGrantWaits(t *testing.T) {
	primary, replicas := replicated(t, 1, redistest.Options{})
	store := durable(t, primary.Addr(), Options{WaitReplicas: 1, WaitTimeout: 10 * patience})
	held := request("held")
	acquire(t, store, held)
	resume := stopped(replicas[0])
	defer resume()
	first := waitsFor(t, primary, func() error {
		_, err := store.Acquire(within(t), request("first"))
		return err
	})
	extend(t, store, held)
	holder(t, store, "first")
	release(t, store, held, driver.Mine)
	select {
	case err := <-first:
		t.Fatalf("the grant did not wait: %v", err)
	default:
	}
	resume()
	if err := <-first; err != nil {
		t.Error(err)
	}
}

func TestAGrantThatWaitsEndsWithItsContextAndWithTheStore(t *testing.T) {
	primary, _ := replicated(t, 0, redistest.Options{})
	store := durable(t, primary.Addr(), Options{WaitReplicas: 1, WaitTimeout: time.Hour})
	ctx, cancel := context.WithCancel(t.Context())
	done := waitsFor(t, primary, func() error {
		_, err := store.Acquire(ctx, request("x"))
		return err
	})
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) || !driver.Unknown(err) {
		t.Errorf("error %v, want context canceled", err)
	}
	store.Close() // takes no hour
}

func TestAGrantWhoseWaitWasCutIsFoundAgainByItsToken(t *testing.T) {
	primary, replicas := replicated(t, 1, redistest.Options{})
	proxy := redistest.NewProxy(t, primary.Addr())
	store := durable(t, proxy.Addr(), Options{WaitReplicas: 1, WaitTimeout: patience})
	resume := stopped(replicas[0])
	defer resume()
	req := request("x")
	cut := waitsFor(t, primary, func() error {
		_, err := store.Acquire(within(t), req)
		return err
	})
	proxy.Cut()
	err := <-cut
	wantKind(t, err, driver.ErrUnreachable)
	if !driver.Unknown(err) {
		t.Errorf("%v: the name is locked", err)
	}
	proxy.Heal()
	resume()
	eventually(t, "the same token is granted again", func() bool {
		result, err := store.Acquire(within(t), req)
		return err == nil && result.Replicas == 1
	})
}

func TestAWaitThatTheServerDoesNotAnswerEnds(t *testing.T) {
	primary, _ := replicated(t, 0, redistest.Options{})
	store := durable(t, primary.Addr(), Options{WaitReplicas: 1, WaitTimeout: time.Second})
	defer primary.Resume()
	silent := waitsFor(t, primary, func() error {
		_, err := store.Acquire(within(t), request("x"))
		return err
	})
	primary.Pause()
	err := <-silent
	wantKind(t, err, driver.ErrUnreachable)
	if errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v looks as if the caller's context had ended", err)
	}
}

func TestAGrantOfAClusterWaitsToo(t *testing.T) {
	server, other := cluster(t)
	store := durable(t, server.Addr(), Options{WaitReplicas: 1, WaitTimeout: 10 * time.Millisecond})
	_, err := store.Acquire(within(t), request("x"))
	wantKind(t, err, driver.ErrRefused)
	if err == nil || !strings.Contains(err.Error(), "0 of 1 replicas") {
		t.Errorf("the error is %v", err)
	}
	acquire(t, other, request("x"))
}

func TestALeaseSaysHowManyReplicasHaveIt(t *testing.T) {
	primary, replicas := replicated(t, 1, redistest.Options{})
	if n := hold(t, locker(t, primary.Addr(), holdfast.Config{})).Replicated(); n != 0 {
		t.Errorf("nobody waited, and the lease says %d", n)
	}
	do(t, primary, "DEL", "lock:report")

	waits := make(chan struct{}, 1)
	l := lockerOn(t, durable(t, primary.Addr(), Options{WaitReplicas: 1}), holdfast.Config{
		NoLocalPassing: true,
		Events:         holdfast.Events{Waiting: func(holdfast.Event) { waits <- struct{}{} }},
	})
	var first *holdfast.Lease
	eventually(t, "the replica is fast enough", func() (granted bool) {
		lease, err := l.Acquire(within(t), "report")
		first = lease
		return err == nil
	})
	if n := first.Replicated(); n != 1 {
		t.Errorf("the lease says %d", n)
	}
	second := make(chan error, 1)
	go func() {
		_, err := l.Acquire(within(t), "report")
		second <- err
	}()
	<-waits
	defer stopped(replicas[0])()
	// The waiter's request releases the one lease and is not given the other.
	if err := first.Release(within(t)); err != nil {
		t.Errorf("released: %v", err)
	}
	if err := <-second; !errors.Is(err, holdfast.ErrRefused) || errors.Is(err, holdfast.ErrHeld) || !strings.Contains(err.Error(), "0 of 1 replicas") {
		t.Errorf("the waiter: %v", err)
	}
	gone(t, primary)
}

func TestAGrantWaitsForTheDisk(t *testing.T) {
	primary, replicas := replicated(t, 1, redistest.Options{AppendOnly: true})
	store := durable(t, primary.Addr(), Options{WaitReplicas: 1, WaitFsync: true, WaitTimeout: patience})
	if found, err := primary.Do("COMMAND", "INFO", "WAITAOF").ToArray(); err != nil || found[0].IsNil() {
		_, err := store.Acquire(within(t), request("x"))
		wantKind(t, err, driver.ErrRefused)
		if number(t, primary, "EXISTS", "lock:x") != 0 {
			t.Error("the name stays locked")
		}
		t.Skip("this server has no WAITAOF: only its refusal was tested")
	}
	if result, err := store.Acquire(within(t), request("x")); err != nil || result.Replicas != 1 {
		t.Errorf("granted: %+v, %v", result, err)
	}
	defer stopped(replicas[0])()
	store = durable(t, primary.Addr(), Options{WaitReplicas: 1, WaitFsync: true})
	_, err := store.Acquire(within(t), request("y"))
	wantKind(t, err, driver.ErrRefused)
	if !strings.Contains(err.Error(), "0 of 1 replicas had the grant on their disks") {
		t.Error(err)
	}
	acquire(t, open(t, primary.Addr()), request("y"))

	do(t, primary, "CONFIG", "SET", "appendonly", "no")
	_, err = store.Acquire(within(t), request("z"))
	wantKind(t, err, driver.ErrMisconfigured)
	acquire(t, open(t, primary.Addr()), request("z"))
}
