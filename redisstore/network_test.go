package redisstore

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfastlock/holdfast/driver"
	"github.com/holdfastlock/holdfast/internal/redistest"
)

// loopForEver keeps the server busy.
func loopForEver(ctx context.Context, conn Conn) (string, error) {
	reply := conn.Do(ctx, command(0, "EVAL", "while true do end", "0"))
	return reply.Text, reply.Err
}

// behindProxy returns a store that has connected through the proxy.
func behindProxy(t *testing.T) (*redistest.Server, *redistest.Proxy, *Store) {
	t.Helper()
	server := redistest.Start(t, redistest.Options{})
	proxy := redistest.NewProxy(t, server.Addr())
	store := open(t, proxy.Addr())
	acquire(t, store, request("connects"))
	return server, proxy, store
}

func TestAServerThatIsDownIsUnreachableUntilItIsUp(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	server.Kill()
	store := open(t, server.Addr())
	_, err := store.Acquire(within(t), request("x"))
	wantKind(t, err, driver.ErrUnreachable)
	if driver.Unknown(err) {
		t.Errorf("%v: nothing was sent, the outcome is known", err)
	}
	server.Restart(true)
	acquire(t, store, request("x"))

	server.Restart(false)
	eventually(t, "the store works again", func() bool {
		_, err := store.Acquire(within(t), request("y"))
		return err == nil
	})
}

func TestACallEndsWithItsContext(t *testing.T) {
	_, proxy, store := behindProxy(t)
	proxy.Drop()
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(10*time.Millisecond, cancel)
	_, err := store.Acquire(ctx, request("x"))
	if !errors.Is(err, context.Canceled) || errors.Is(err, driver.ErrUnreachable) || !driver.Unknown(err) {
		t.Errorf("error %v, want context canceled", err)
	}
}

func TestABlackHoleIsUnreachable(t *testing.T) {
	_, proxy, store := behindProxy(t)
	proxy.Drop()
	_, err := store.Acquire(within(t), request("x"))
	wantKind(t, err, driver.ErrUnreachable)
	if errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v looks as if the caller's context had ended", err)
	}
	results := store.Extend(within(t), []driver.ExtendRequest{{Name: "connects", Token: "t", TTL: time.Second}})
	wantKind(t, results[0].Err, driver.ErrUnreachable)
	proxy.Heal()
	eventually(t, "the store works again", func() bool {
		_, err := store.Inspect(within(t), "x")
		return err == nil
	})
}

// The connection is lost, and the first call that needs a new one has a short
// limit. The others may learn that the old one is gone, but not of that limit.
func TestAnEndedContextLeavesTheNeighboursAlone(t *testing.T) {
	server, proxy, store := behindProxy(t)
	for range 10 {
		proxy.Cut()
		server.Pause()
		var calls sync.WaitGroup
		calls.Go(func() {
			defer server.Resume()
			for !t.Failed() {
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
				_, err := store.Inspect(ctx, "hurried")
				cancel()
				if errors.Is(err, context.DeadlineExceeded) {
					return
				}
			}
		})
		for range 4 {
			calls.Go(func() {
				_, err := store.Inspect(within(t), "patient")
				if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
					t.Errorf("the patient neighbour: %v", err)
				}
			})
		}
		calls.Wait()
		eventually(t, "the store works again", func() bool {
			_, err := store.Inspect(within(t), "x")
			return err == nil
		})
	}
}

func TestAnAcquireThatArrivesLateFindsItsTombstone(t *testing.T) {
	server, proxy, store := behindProxy(t)
	direct := open(t, server.Addr())
	req := request("late")
	proxy.Drop()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := store.Acquire(ctx, req); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	answer, err := direct.Release(within(t), driver.ReleaseRequest{Name: req.Name, Token: req.Token, Tombstone: time.Minute})
	if err != nil || answer != driver.Gone {
		t.Fatalf("release: %v, %v", answer, err)
	}
	before := server.CommandCounts()["evalsha"]
	proxy.Heal()
	eventually(t, "the late request arrives", func() bool { return server.CommandCounts()["evalsha"] > before })
	if n := number(t, server, "EXISTS", "lock:late"); n != 0 {
		t.Error("the late acquire locked the name")
	}
	if _, err := direct.Acquire(within(t), req); !errors.Is(err, driver.ErrWithdrawn) {
		t.Errorf("acquire: %v, want withdrawn", err)
	}
}

func TestAnAcquireWhoseReplyWasLostIsRecognised(t *testing.T) {
	server, proxy, store := behindProxy(t)
	req := request("lost reply")
	proxy.DropRepliesTo(req.Name)
	_, err := store.Acquire(within(t), req)
	wantKind(t, err, driver.ErrUnreachable)
	if !driver.Unknown(err) || do(t, server, "GET", "lock:lost reply") != req.Token {
		t.Errorf("%v: the outcome should be unknown, and the lock taken", err)
	}
	proxy.Heal()
	eventually(t, "the same token is granted again", func() bool {
		result, err := store.Acquire(within(t), req)
		return err == nil && result.Granted
	})
}

func TestCloseEndsEverythingInABlackHoleToo(t *testing.T) {
	_, proxy, store := behindProxy(t)
	listen(t, store)
	proxy.Drop()
	failed := make(chan error, 1)
	go func() {
		_, err := store.Acquire(within(t), request("x"))
		failed <- err
	}()
	store.Close()
	if err := <-failed; !errors.Is(err, driver.ErrUnreachable) {
		t.Errorf("the call under way: %v", err)
	}
	_, err := store.Acquire(within(t), request("x"))
	wantKind(t, err, driver.ErrUnreachable)
	store.OpenInbox(driver.Listener{Restored: func() { t.Error("a closed store listens") }}).Close()
	store.Close()
}

func TestManyCallersConnectOnce(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	store := open(t, server.Addr())
	var calls sync.WaitGroup
	for range 50 {
		calls.Go(func() {
			if _, err := store.Inspect(within(t), "x"); err != nil {
				t.Error(err)
			}
		})
	}
	calls.Wait()
	clients := strings.TrimSpace(do(t, server, "CLIENT", "LIST"))
	if made := len(strings.Split(clients, "\n")); made != 2 { // ours and the one that asks
		t.Errorf("%d connections, want 2:\n%s", made, clients)
	}
}
