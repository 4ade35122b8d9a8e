package redisstore

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfastlock/holdfast"
	"github.com/holdfastlock/holdfast/driver"
	"github.com/holdfastlock/holdfast/internal/redistest"
)

// What becomes of locks when their slot goes to another node of a cluster.

func over(t *testing.T, c *redistest.Cluster) *Store {
	t.Helper()
	return openWith(t, Options{Client: rueidis.ClientOption{InitAddress: c.Addrs()}})
}

// home returns the slot of a name and the node that has it.
func home(t *testing.T, c *redistest.Cluster, name string) (int, *redistest.Process) {
	t.Helper()
	slot, err := c.Slot(DefaultPrefix + name)
	must(t, err)
	return slot, c.Owner(slot)
}

// migrating begins to move the slot of a name to another node.
func migrating(t *testing.T, c *redistest.Cluster, name string) *redistest.Migration {
	t.Helper()
	slot, from := home(t, c, name)
	m, err := c.Migrate(slot, c.Other(from))
	must(t, err)
	return m
}

// probes are what may be asked of a name that is held and waited for: each says
// whether the answer is right.
func probes(t *testing.T, store *Store, held driver.AcquireRequest, fence int64, waiter driver.QueueRequest) map[string]func() (bool, error) {
	t.Helper()
	return map[string]func() (bool, error){
		"extend": func() (bool, error) {
			result := store.Extend(within(t), []driver.ExtendRequest{{Name: held.Name, Token: held.Token, TTL: held.TTL}})[0]
			return result.Answer == driver.Mine, result.Err
		},
		"acquire by another": func() (bool, error) {
			result, err := store.Acquire(within(t), request(held.Name))
			return !result.Granted && len(result.State.Holders) == 1 && result.State.Holders[0].Token == held.Token, err
		},
		"acquire without a fence": func() (bool, error) {
			bare := request(held.Name)
			bare.NoFence, bare.Purpose = true, ""
			result, err := store.Acquire(within(t), bare)
			return !result.Granted, err
		},
		"acquire by the holder": func() (bool, error) {
			result, err := store.Acquire(within(t), held)
			return result.Granted && result.Fence == fence, err
		},
		"inspect": func() (bool, error) {
			state, err := store.Inspect(within(t), held.Name)
			return len(state.Holders) == 1 && state.Holders[0].Token == held.Token && state.Fence == fence, err
		},
		"enqueue": func() (bool, error) {
			result, err := store.Enqueue(within(t), waiter)
			return !result.Granted && result.Before == 0, err
		},
		"release by another": func() (bool, error) {
			answer, err := store.Release(within(t), driver.ReleaseRequest{Name: held.Name, Token: request("").Token})
			return answer == driver.Taken, err
		},
	}
}

func TestWhileASlotMovesAnswersAreRightOrThereIsNone(t *testing.T) {
	c := redistest.StartCluster(t, redistest.ClusterOptions{WithoutReplicas: true})
	store := over(t, c)
	inbox := listen(t, store)
	held, fresh := request("{moving}held"), request("{moving}fresh")
	fence := acquire(t, store, held)
	waiter := waiting(t, store, held.Name, inbox, 0)
	hinted(t, inbox) // its channel is listened to
	k, err := keysOf(DefaultPrefix, held.Name)
	must(t, err)
	m := migrating(t, c, held.Name)

	ask := func(stage string, mustAnswer bool) {
		for what, probe := range probes(t, store, held, fence, waiter) {
			right, err := probe()
			switch {
			case err != nil && (mustAnswer || !errors.Is(err, driver.ErrUnreachable)):
				t.Errorf("%s, %s: %v", stage, what, err)
			case err == nil && !right:
				t.Errorf("%s, %s: a wrong answer", stage, what)
			}
		}
		if result, err := store.Acquire(within(t), fresh); err == nil && !result.Granted || err != nil && !errors.Is(err, driver.ErrUnreachable) {
			t.Errorf("%s, a name that is free: granted %v, %v", stage, result.Granted, err)
		}
	}
	ask("nothing has moved", true)
	must(t, m.Move(k.lock))
	ask("the lock has moved", false)
	must(t, m.Move(k.companion()))
	ask("its companion too", false)
	must(t, m.Move(k.queue()))
	ask("its queue too", true)
	must(t, m.Finish())
	ask("the slot has moved", true)

	hinted(t, inbox) // listened to on the new node
	must(t, c.WaitOK())
	release(t, store, held, driver.Mine)
	told(t, inbox, waiter)
	if next := claim(t, store, waiter); next <= fence {
		t.Errorf("fence %d after %d", next, fence)
	}
	acquire(t, store, fresh)
}

func TestALeaseAndItsWaiterGoAlongWithTheirSlot(t *testing.T) {
	c := redistest.StartCluster(t, redistest.ClusterOptions{WithoutReplicas: true})
	holder := lockerOn(t, over(t, c), holdfast.Config{TTL: time.Minute})
	waiter := lockerOn(t, over(t, c), holdfast.Config{TTL: time.Minute})
	lease := hold(t, holder)
	for range 3 {
		got := make(chan *holdfast.Lease)
		go func() { got <- hold(t, waiter) }()
		_, node := home(t, c, "report")
		eventually(t, "it waits", func() bool { return number(t, node, "ZCARD", "lock:~q:{lock:report}") == 1 })
		must(t, migrating(t, c, "report").Finish())
		if err := confirmed(t, lease); err != nil {
			t.Fatalf("the lease: %v", err)
		}
		must(t, lease.Release(within(t)))
		next := <-got
		if next.Fence() <= lease.Fence() {
			t.Errorf("fence %d after %d", next.Fence(), lease.Fence())
		}
		lease, holder, waiter = next, waiter, holder
	}
}

func TestLocksAreUsedWhileSlotsMove(t *testing.T) {
	c := redistest.StartCluster(t, redistest.ClusterOptions{WithoutReplicas: true})
	l := lockerOn(t, over(t, c), holdfast.Config{})
	stop, done := make(chan struct{}), make(chan error)
	go func() {
		var last int64
		for n := 0; ; n++ {
			select {
			case <-stop:
				done <- nil
				return
			default:
			}
			lease, err := l.Acquire(t.Context(), "{busy}x")
			if err != nil {
				done <- fmt.Errorf("acquire %d: %w", n, err)
				return
			}
			if lease.Fence() <= last {
				done <- fmt.Errorf("fence %d after %d", lease.Fence(), last)
				return
			}
			last = lease.Fence()
			if err := lease.Release(t.Context()); err != nil {
				done <- fmt.Errorf("release %d: %w", n, err)
				return
			}
		}
	}()
	for range 5 {
		must(t, migrating(t, c, "{busy}x").Finish())
		must(t, c.WaitOK())
	}
	close(stop)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestAGrantThatWaitsFollowsItsSlot(t *testing.T) {
	c := redistest.StartCluster(t, redistest.ClusterOptions{})
	store := openWith(t, Options{
		Client:       rueidis.ClientOption{InitAddress: c.Addrs()},
		WaitReplicas: 1, WaitTimeout: patience,
	})
	granted := func(name string) {
		t.Helper()
		if result, err := store.Acquire(within(t), request(name)); err != nil || result.Replicas != 1 {
			t.Errorf("%s: %+v, %v, want one replica", name, result, err)
		}
	}
	granted("{durable}before")
	must(t, migrating(t, c, "{durable}before").Finish())
	granted("{durable}after") // at once: the client has not looked at the cluster again
	m := migrating(t, c, "{durable}before")
	_, err := store.Acquire(within(t), request("{durable}meanwhile"))
	wantKind(t, err, driver.ErrUnreachable)
	must(t, m.Finish())
	granted("{durable}at last")
}
