package redisstore

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfastlock/holdfast"
	"github.com/holdfastlock/holdfast/driver"
	"github.com/holdfastlock/holdfast/internal/redistest"
)

// What becomes of locks when another server becomes the primary.

// watching returns a store that asks the sentinels for the primary.
func watching(t *testing.T, s *redistest.Sentinels) *Store {
	t.Helper()
	return openWith(t, Options{Client: watchedBy(s)})
}

func watchedBy(s *redistest.Sentinels) rueidis.ClientOption {
	return rueidis.ClientOption{InitAddress: s.Addrs(), Sentinel: rueidis.SentinelOption{MasterSet: redistest.MasterSet}}
}

// replicate waits until the replicas have what was written before.
func replicate(t *testing.T, primary *redistest.Process) {
	t.Helper()
	do(t, primary, "SET", "before", "") // WAIT answers for what its connection wrote
	if n := number(t, primary, "WAIT", "2", "5000"); n != 2 {
		t.Fatalf("%d replicas follow", n)
	}
}

// confirmed waits for an answer to whether the lease is held.
func confirmed(t *testing.T, lease *holdfast.Lease) (err error) {
	t.Helper()
	eventually(t, "the store answers", func() bool {
		err = lease.Confirm(within(t))
		return !errors.Is(err, holdfast.ErrUnreachable)
	})
	return err
}

// fenceOf waits for a grant of the name to a locker and returns its fence.
func fenceOf(t *testing.T, l *holdfast.Locker, name string) (fence int64) {
	t.Helper()
	eventually(t, "the name is granted", func() bool {
		lease, err := l.TryAcquire(within(t), name)
		if err != nil {
			if !errors.Is(err, holdfast.ErrUnreachable) {
				t.Fatalf("acquire: %v", err)
			}
			return false
		}
		fence = lease.Fence()
		if err := lease.Release(within(t)); err != nil {
			t.Errorf("release: %v", err)
		}
		return true
	})
	return fence
}

func TestALeaseThatTheNewPrimaryHasIsKept(t *testing.T) {
	// Long enough that a busy machine makes no failover of its own.
	s := redistest.StartSentinels(t, redistest.SentinelOptions{DownAfter: 3 * time.Second})
	l := lockerOn(t, watching(t, s), holdfast.Config{TTL: time.Minute})
	lease := hold(t, l)
	old := s.Primary()
	replicate(t, old)
	old.Kill()
	promoted, err := s.WaitFailover(old)
	must(t, err)

	if err := confirmed(t, lease); err != nil {
		t.Fatalf("the lease: %v", err)
	}
	if got := do(t, promoted, "GET", "lock:report"); got != lease.Token() {
		t.Errorf("the new primary has %q", got)
	}
	must(t, lease.Release(within(t)))
	fence := fenceOf(t, l, "report")
	if fence <= lease.Fence() {
		t.Errorf("fence %d after %d", fence, lease.Fence())
	}

	// The old primary comes back with nothing, and is made to follow.
	must(t, old.Restart(false))
	must(t, s.WaitSettled())
	if next := fenceOf(t, l, "report"); next <= fence {
		t.Errorf("fence %d after %d", next, fence)
	}
	back, err := s.Failover()
	must(t, err)
	if next := fenceOf(t, l, "report"); next <= fence || back == promoted {
		t.Errorf("fence %d after %d", next, fence)
	}
}

// lag has the primary's replicas miss all that is written from now on, until
// follow is called.
func lag(t *testing.T, s *redistest.Sentinels) (follow func()) {
	t.Helper()
	primary := s.Primary()
	for _, server := range s.Servers {
		if server != primary {
			do(t, server, "CONFIG", "SET", "masterauth", "wrong")
		}
	}
	do(t, primary, "CONFIG", "SET", "requirepass", "right") // their connections go on
	primary.Do("CLIENT", "KILL", "TYPE", "replica")
	return func() {
		for _, server := range s.Servers {
			if server.Running() { // its sentinels may have ended our connection
				eventually(t, "it follows", func() bool { return server.Do("CONFIG", "SET", "masterauth", "").Error() == nil })
			}
		}
	}
}

func TestALeaseThatTheNewPrimaryNeverHadIsReportedLost(t *testing.T) {
	s := redistest.StartSentinels(t, redistest.SentinelOptions{})
	var losses atomic.Int32
	l := lockerOn(t, watching(t, s), holdfast.Config{TTL: time.Minute, Events: holdfast.Events{
		Lost: func(holdfast.Event) { losses.Add(1) },
	}})
	fenceOf(t, l, "report") // it is connected
	old := s.Primary()
	replicate(t, old)
	follow := lag(t, s)
	lease := hold(t, l)
	old.Kill()
	promoted, err := s.WaitFailover(old)
	must(t, err)
	follow()

	err = confirmed(t, lease)
	wantLost(t, err, holdfast.LostGone)
	<-lease.Context().Done()
	wantLost(t, context.Cause(lease.Context()), holdfast.LostGone)
	if n := losses.Load(); n != 1 {
		t.Errorf("the loss was reported %d times", n)
	}
	if fence := number(t, promoted, "HGET", "lock:~f:{lock:report}", "fence"); fence >= lease.Fence() {
		t.Errorf("the new primary knows of fence %d: this test proves nothing", fence)
	}
	if fence := fenceOf(t, l, "report"); fence <= lease.Fence() {
		t.Errorf("fence %d after %d", fence, lease.Fence())
	}
}

func TestAPrimaryThatWasFrozenIsNotFollowedAnyMore(t *testing.T) {
	s := redistest.StartSentinels(t, redistest.SentinelOptions{})
	store := watching(t, s)
	l := lockerOn(t, store, holdfast.Config{TTL: time.Minute})
	fence := fenceOf(t, l, "report")
	old := s.Primary()
	old.Pause()
	defer old.Resume()
	_, err := s.WaitFailover(old)
	must(t, err)
	lease := holdAgain(t, l)
	if lease.Fence() <= fence {
		t.Errorf("fence %d after %d", lease.Fence(), fence)
	}
	old.Resume()
	must(t, s.WaitSettled())
	if err := confirmed(t, lease); err != nil {
		t.Errorf("the lease: %v", err)
	}
	if n := number(t, old, "EXISTS", "lock:report"); n != 1 {
		t.Errorf("the old primary has %d of the lock", n)
	}
	must(t, lease.Release(within(t)))
}

// holdAgain is hold while the servers may not be reached yet.
func holdAgain(t *testing.T, l *holdfast.Locker) (lease *holdfast.Lease) {
	t.Helper()
	eventually(t, "the name is granted", func() bool {
		var err error
		lease, err = l.Acquire(within(t), "report")
		return err == nil
	})
	return lease
}

func TestAWaiterGetsItsTurnThoughThePrimaryChanges(t *testing.T) {
	s := redistest.StartSentinels(t, redistest.SentinelOptions{})
	holder := lockerOn(t, watching(t, s), holdfast.Config{TTL: time.Minute})
	waiter := lockerOn(t, watching(t, s), holdfast.Config{TTL: time.Minute})
	lease := hold(t, holder)
	got := make(chan *holdfast.Lease)
	go func() { got <- holdAgain(t, waiter) }()
	eventually(t, "it waits", func() bool { return number(t, s.Primary(), "ZCARD", "lock:~q:{lock:report}") == 1 })
	_, err := s.Failover()
	must(t, err)
	if err := confirmed(t, lease); err != nil {
		t.Fatalf("the lease: %v", err)
	}
	must(t, lease.Release(within(t)))
	if next := <-got; next.Fence() <= lease.Fence() {
		t.Errorf("fence %d after %d", next.Fence(), lease.Fence())
	}
}

func TestAStoreFindsThePrimaryThoughItsSentinelSaysNothing(t *testing.T) {
	s := redistest.StartSentinels(t, redistest.SentinelOptions{})
	l := lockerOn(t, watching(t, s), holdfast.Config{})
	fence := fenceOf(t, l, "report")
	old := s.Primary()
	do(t, s.Sentinels[0], "SENTINEL", "REMOVE", redistest.MasterSet) // the one that the client listens to
	old.Kill()
	others := &redistest.Sentinels{Servers: s.Servers, Sentinels: s.Sentinels[1:]}
	_, err := others.WaitFailover(old)
	must(t, err)
	if next := fenceOf(t, l, "report"); next <= fence {
		t.Errorf("fence %d after %d", next, fence)
	}
}

// TestAStoreLeavesAServerThatHasBecomeAReplica is about an address behind which
// another server comes to be the primary, as a name of a managed Redis, while
// the old one is well.
func TestAStoreLeavesAServerThatHasBecomeAReplica(t *testing.T) {
	primary, replicas := replicated(t, 1, redistest.Options{})
	var target atomic.Value
	target.Store(primary.Addr())
	store := openWith(t, Options{Client: rueidis.ClientOption{
		InitAddress: []string{"redis.example:6379"},
		DialCtxFn: func(ctx context.Context, _ string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
			return d.DialContext(ctx, "tcp", target.Load().(string))
		},
	}})
	req := request("x")
	fence := acquire(t, store, req)
	inbox := listen(t, store)
	eventually(t, "the replica has it", func() bool { return number(t, replicas[0], "EXISTS", "lock:x") == 1 })

	do(t, replicas[0], "REPLICAOF", "NO", "ONE")
	do(t, primary, "REPLICAOF", "127.0.0.1", portOf(replicas[0]))
	target.Store(replicas[0].Addr())
	_, err := store.Acquire(within(t), request("other"))
	wantKind(t, err, driver.ErrRefused)
	if err == nil || !strings.Contains(err.Error(), "use the primary's address") {
		t.Errorf("no hint in %v", err)
	}
	eventually(t, "the lease is extended", func() bool {
		result := store.Extend(within(t), []driver.ExtendRequest{{Name: "x", Token: req.Token, TTL: 2 * req.TTL}})[0]
		return result.Err == nil && result.Answer == driver.Mine
	})
	listens(t, inbox)
	release(t, store, req, driver.Mine)
	if next := acquire(t, store, request("x")); next <= fence {
		t.Errorf("fence %d after %d", next, fence)
	}
}

func portOf(server *redistest.Server) string {
	_, port, _ := net.SplitHostPort(server.Addr())
	return port
}

func TestSentinelsHaveTheirOwnCredentials(t *testing.T) {
	s := redistest.StartSentinels(t, redistest.SentinelOptions{Server: redistest.Options{Password: "data-horse"}, Password: "watch-horse"})
	for _, sentinel := range s.Sentinels {
		do(t, sentinel, "ACL", "SETUSER", "app", "on", ">app-horse", "allchannels", "-@all",
			"+auth", "+client|getname", "+client|id", "+client|setname", "+command", "+hello", "+ping", "+role",
			"+sentinel|get-master-addr-by-name", "+sentinel|replicas", "+sentinel|sentinels", "+subscribe", "+unsubscribe", "+psubscribe", "+punsubscribe")
	}
	client := watchedBy(s)
	for name, c := range map[string]struct {
		data, user, sentinel, set string
		kind                      error
	}{
		"right":             {"data-horse", "", "watch-horse", redistest.MasterSet, nil},
		"right user":        {"data-horse", "app", "app-horse", redistest.MasterSet, nil},
		"wrong at sentinel": {"data-horse", "app", "no-horse", redistest.MasterSet, driver.ErrRefused},
		"none at sentinel":  {"data-horse", "", "", redistest.MasterSet, driver.ErrRefused},
		"wrong at server":   {"no-horse", "", "watch-horse", redistest.MasterSet, driver.ErrRefused},
		"another name":      {"data-horse", "", "watch-horse", "other", driver.ErrMisconfigured},
	} {
		client.Password, client.Sentinel.Username, client.Sentinel.Password, client.Sentinel.MasterSet = c.data, c.user, c.sentinel, c.set
		store := openWith(t, Options{Client: client})
		_, err := store.Acquire(within(t), request(name))
		switch {
		case c.kind == nil && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.kind != nil:
			wantKind(t, err, c.kind)
		}
		if err != nil && strings.Contains(err.Error(), "horse") {
			t.Errorf("%s: a password is in %v", name, err)
		}
	}
}
