package redisstore

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfastlock/holdfast/driver"
	"github.com/holdfastlock/holdfast/internal/redistest"
)

func TestAHeldLockSurvivesFullMemory(t *testing.T) {
	server, store := given(t)
	req, tombstoned := request("held"), request("tombstoned")
	acquire(t, store, req)
	acquire(t, store, tombstoned)
	do(t, server, "CONFIG", "SET", "maxmemory", "1")

	for range 2 { // the second time the server knows the scripts
		_, err := store.Acquire(within(t), request("new"))
		wantKind(t, err, driver.ErrRefused)
	}
	extend(t, store, req)
	acquire(t, store, req) // again, by the same token
	release(t, store, req, driver.Mine)
	answer, err := store.Release(within(t), driver.ReleaseRequest{Name: tombstoned.Name, Token: tombstoned.Token, Tombstone: patience})
	if err != nil || answer != driver.Mine {
		t.Errorf("release with a tombstone: %v, %v", answer, err)
	}
	if n := number(t, server, "EXISTS", "lock:new", "lock:~f:{lock:new}", "lock:held", "lock:tombstoned"); n != 0 {
		t.Errorf("%d keys are left", n)
	}
}

func TestAKeyThatIsNotALockIsSaidToBeNone(t *testing.T) {
	server, store := given(t)
	notALock(t, server, store)
}

func notALock(t *testing.T, server *redistest.Server, store *Store) {
	t.Helper()
	do(t, server, "RPUSH", "lock:queue", "job")
	req, good := request("queue"), request("good")
	acquire(t, store, good)

	_, err := store.Acquire(within(t), req)
	wantKind(t, err, driver.ErrMisconfigured)
	if !strings.Contains(err.Error(), "not a lock") {
		t.Errorf("the error does not say so: %v", err)
	}
	_, err = store.Inspect(within(t), req.Name)
	wantKind(t, err, driver.ErrMisconfigured)
	_, err = store.Release(within(t), driver.ReleaseRequest{Name: req.Name, Token: req.Token})
	wantKind(t, err, driver.ErrMisconfigured)

	results := store.Extend(within(t), []driver.ExtendRequest{
		{Name: req.Name, Token: req.Token, TTL: req.TTL},
		{Name: "a}b", Token: req.Token, TTL: req.TTL},
		{Name: good.Name, Token: good.Token, TTL: good.TTL},
	})
	wantKind(t, results[0].Err, driver.ErrMisconfigured)
	var name *driver.NameError
	if !errors.As(results[1].Err, &name) {
		t.Errorf("extend of a bad name: %v", results[1].Err)
	}
	if results[2].Err != nil || results[2].Answer != driver.Mine {
		t.Errorf("the good lease: %v, %v", results[2].Answer, results[2].Err)
	}
}

// The client may not have seen yet that its connection was closed.
func TestACallRightAfterTheServersWereLeftFindsThemAgain(t *testing.T) {
	_, store := given(t)
	for range 300 {
		req := request("x")
		acquire(t, store, req)
		store.connection.mu.Lock()
		store.connection.left = time.Time{}
		store.connection.mu.Unlock()
		store.connection.leave()
		release(t, store, req, driver.Mine)
	}
}

func TestAReplicaRefuses(t *testing.T) {
	server, store := given(t)
	replicaRefuses(t, server, store)
}

func replicaRefuses(t *testing.T, server *redistest.Server, store *Store) {
	t.Helper()
	req := request("replica")
	acquire(t, store, req)
	do(t, server, "REPLICAOF", "127.0.0.1", "1") // nobody is there: the data stays
	_, err := store.Acquire(within(t), request("other"))
	wantKind(t, err, driver.ErrRefused)
	results := store.Extend(within(t), []driver.ExtendRequest{{Name: req.Name, Token: req.Token, TTL: 2 * req.TTL}})
	wantKind(t, results[0].Err, driver.ErrRefused)
	_, err = store.Release(within(t), driver.ReleaseRequest{Name: req.Name, Token: req.Token})
	wantKind(t, err, driver.ErrRefused)
	holder(t, store, req.Name)
}

func TestAReplicaWithoutItsPrimaryIsUnreachable(t *testing.T) {
	server, store := given(t)
	do(t, server, "CONFIG", "SET", "replica-serve-stale-data", "no")
	do(t, server, "REPLICAOF", "127.0.0.1", "1")
	_, err := store.Inspect(within(t), "x")
	wantKind(t, err, driver.ErrUnreachable)
}

func TestTooFewReplicasRefuse(t *testing.T) {
	server, store := given(t)
	do(t, server, "CONFIG", "SET", "min-replicas-to-write", "1")
	_, err := store.Acquire(within(t), request("x"))
	wantKind(t, err, driver.ErrRefused)
	if n := number(t, server, "DBSIZE"); n != 0 {
		t.Errorf("%d keys are left", n)
	}
}

func TestABusyServerIsUnreachable(t *testing.T) {
	server, store := given(t)
	acquire(t, store, request("connects"))
	do(t, server, "CONFIG", "SET", "busy-reply-threshold", "1")
	looping := redistest.NewProxy(t, server.Addr()) // a connection of its own
	other := open(t, looping.Addr())
	ended := make(chan error, 1)
	go func() {
		_, err := ask(within(t), other.connection, loopForEver)
		ended <- err
	}()
	eventually(t, "the server says that it is busy", func() bool {
		_, err := store.Acquire(within(t), request("x"))
		return errors.Is(err, driver.ErrUnreachable) && strings.Contains(err.Error(), "BUSY")
	})
	looping.Cut()
	<-ended
	server.Kill()
}

func TestPasswordsAreAskedForAndChecked(t *testing.T) {
	server := redistest.Start(t, redistest.Options{Password: "right-horse"})
	for _, password := range []string{"", "wrong-horse"} {
		store := openWith(t, Options{Client: rueidis.ClientOption{InitAddress: []string{server.Addr()}, Password: password}})
		for range 2 {
			_, err := store.Acquire(within(t), request("x"))
			wantKind(t, err, driver.ErrRefused)
			if strings.Contains(err.Error(), "horse") {
				t.Errorf("a password is in %v", err)
			}
		}
	}
	store := openWith(t, Options{Client: rueidis.ClientOption{InitAddress: []string{server.Addr()}, Password: "right-horse"}})
	acquire(t, store, request("x"))
}

// asUser returns a store whose ACL user has the rules.
func asUser(t *testing.T, server *redistest.Server, user string, rules ...string) *Store {
	t.Helper()
	do(t, server, append([]string{"ACL", "SETUSER", user, "reset", "on", ">pw"}, rules...)...)
	return openWith(t, userOptions(server, user))
}

func userOptions(server *redistest.Server, user string) Options {
	return Options{Client: rueidis.ClientOption{InitAddress: []string{server.Addr()}, Username: user, Password: "pw"}}
}

func TestAMissingRightLeavesNothingLocked(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	for user, without := range map[string][]string{
		"no-keys": {"resetkeys"}, "no-eval": {"-evalsha", "-eval", "-multi"}, "no-set": {"-set"},
		"no-hset": {"-hset"}, "no-pexpire": {"-pexpire"},
	} {
		store := asUser(t, server, user, append([]string{"~lock:*", "&lock:*", "+@all"}, without...)...)
		for range 2 {
			_, err := store.Acquire(within(t), request(user))
			wantKind(t, err, driver.ErrRefused)
		}
		if n := number(t, server, "EXISTS", "lock:"+user); n != 0 {
			t.Errorf("%s: the name stays locked", user)
		}
	}
}

func TestWithoutTheChannelsThereIsNoQueueButLocks(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	store := asUser(t, server, "quiet", "~lock:*", "resetchannels", "+@all")
	req := request("quiet")
	acquire(t, store, req)
	inbox := store.OpenInbox(driver.Listener{
		Restored: func() { t.Error("the inbox listens") },
		Handed:   func(h driver.HandOff) { t.Errorf("told %+v", h) },
	})
	defer inbox.Close()
	eventually(t, "there is no queue", func() bool {
		_, err := store.Enqueue(within(t), driver.QueueRequest{AcquireRequest: request("quiet"), Inbox: inbox.Address(), Keep: patience})
		return errors.Is(err, driver.ErrUnsupported)
	})
	release(t, store, req, driver.Mine)
	acquire(t, store, request("quiet"))
}

func TestAReleaseNeedsNoRightOfTheQueue(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	store := asUser(t, server, "plain", "~lock:*", "+evalsha", "+eval", "+get", "+pttl", "+hmget", "+hlen", "+hgetall", "+hdel",
		"+time", "+set", "+hset", "+pexpire", "+del", "+ping")
	req := request("plain")
	acquire(t, store, req)
	release(t, store, req, driver.Mine)
	acquire(t, store, request("plain"))
}

func TestAnEvictingServerIsWarnedAboutOnce(t *testing.T) {
	server := redistest.Start(t, redistest.Options{MaxMemory: "100mb", Args: []string{"--maxmemory-policy", "allkeys-lru"}})
	var warnings []string
	store := openWith(t, Options{
		Client: rueidis.ClientOption{InitAddress: []string{server.Addr()}},
		Warn:   func(text string) { warnings = append(warnings, text) },
	})
	acquire(t, store, request("a"))
	acquire(t, store, request("b"))
	if len(warnings) != 1 || !strings.Contains(warnings[0], "allkeys-lru") || strings.Contains(warnings[0], "\n") {
		t.Errorf("warnings %q, want one line", warnings)
	}
}

func TestOptionsThatCannotWorkAreRefused(t *testing.T) {
	address := []string{"127.0.0.1:6379"}
	for name, options := range map[string]Options{
		"no address":   {},
		"replica":      {Client: rueidis.ClientOption{InitAddress: address, ReplicaOnly: true}},
		"open brace":   {Client: rueidis.ClientOption{InitAddress: address}, Prefix: "a{"},
		"line's end":   {Client: rueidis.ClientOption{InitAddress: address}, Prefix: "a\n"},
		"closed brace": {Client: rueidis.ClientOption{InitAddress: address}, Prefix: "a}"},
		"few replicas": {Client: rueidis.ClientOption{InitAddress: address}, WaitReplicas: -1},
		"wait for nil": {Client: rueidis.ClientOption{InitAddress: address}, WaitTimeout: time.Second},
	} {
		_, err := New(options)
		wantKind(t, err, driver.ErrMisconfigured)
		if err == nil {
			t.Error(name)
		}
	}
}
