package redisstore

import (
	"testing"

	"github.com/holdfastlock/holdfast/driver"
	"github.com/holdfastlock/holdfast/internal/redistest"
)

// subscribers says how many connections wait for the name.
func subscribers(t *testing.T, server *redistest.Server, name string) int64 {
	t.Helper()
	counts, err := server.Do("PUBSUB", "NUMSUB", "lock:~c:{lock:"+name+"}").ToArray()
	if err != nil || len(counts) != 2 {
		t.Fatalf("PUBSUB NUMSUB: %v, %v", counts, err)
	}
	n, _ := counts[1].AsInt64()
	return n
}

func TestWaitersOfOneNameShareASubscription(t *testing.T) {
	server, store := given(t)
	var wakes []<-chan struct{}
	var stops []func()
	for range 10 {
		wake, stop := store.Subscribe("shared")
		woken(t, wake, "active")
		wakes, stops = append(wakes, wake), append(stops, stop)
	}
	req := request("shared")
	acquire(t, store, req)
	release(t, store, req, driver.Mine)
	for _, wake := range wakes {
		woken(t, wake, "released")
	}
	for i, stop := range stops {
		if n := subscribers(t, server, "shared"); n != 1 {
			t.Fatalf("%d subscriptions at the server with %d waiters left, want 1", n, len(stops)-i)
		}
		stop()
		stop()
	}
	eventually(t, "the server has no subscription left", func() bool { return subscribers(t, server, "shared") == 0 })
}

func TestASubscriptionIsMadeAgainAfterItsConnectionIsKilled(t *testing.T) {
	for _, kind := range []string{"normal", "pubsub"} {
		t.Run(kind, func(t *testing.T) {
			server, store := given(t)
			req := request("killed")
			acquire(t, store, req)
			wake, stop := store.Subscribe(req.Name)
			defer stop()
			woken(t, wake, "active")
			do(t, server, "CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes")
			if kind == "pubsub" {
				woken(t, wake, "active again")
			}
			eventually(t, "the lock is released", func() bool {
				_, err := store.Release(within(t), driver.ReleaseRequest{Name: req.Name, Token: req.Token})
				return err == nil
			})
			woken(t, wake, "released")
		})
	}
}

func TestASubscriptionSurvivesARestart(t *testing.T) {
	server, store := given(t)
	wake, stop := store.Subscribe("restart")
	defer stop()
	woken(t, wake, "active")
	server.Restart(false)
	woken(t, wake, "active again")
	eventually(t, "the server has one subscription", func() bool { return subscribers(t, server, "restart") == 1 })
}

func TestASubscriptionBeforeTheServerIsUpBecomesActive(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	server.Kill()
	store := open(t, server.Addr())
	wake, stop := store.Subscribe("early")
	defer stop()
	select {
	case <-wake:
		t.Error("woken without a server")
	default:
	}
	server.Restart(false)
	woken(t, wake, "active")
}

func TestASuccessorOfAStoppedSubscriptionIsActive(t *testing.T) {
	_, store := given(t)
	for range 50 {
		wake, stop := store.Subscribe("again")
		woken(t, wake, "active")
		stop()
	}
}
