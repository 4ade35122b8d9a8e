package quorum

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfastlock/holdfast/driver"
	"github.com/holdfastlock/holdfast/internal/redistest"
	"github.com/holdfastlock/holdfast/redisstore"
)

// afterRestart returns a quorum of three servers, and those. The first two have
// granted the name to the first request when the second of them restarts without
// its data; the third was down then.
func afterRestart(t *testing.T, abstain time.Duration, first driver.AcquireRequest) (*Store, []*redistest.Server) {
	t.Helper()
	servers := startServers(t, 3)
	quorum := ofServers(t, abstain, servers)
	eventually(t, "the servers grant", func() bool {
		req := request("warm-up")
		req.TTL = first.TTL
		result, err := quorum.Acquire(within(t), req)
		return err == nil && result.Granted
	})
	servers[2].Kill()
	acquire(t, quorum, first)
	servers[1].Restart(false)
	servers[2].Restart(true)
	return quorum, servers
}

func ofServers(t *testing.T, abstain time.Duration, servers []*redistest.Server) *Store {
	t.Helper()
	stores := make([]driver.Store, len(servers))
	for i, server := range servers {
		store, err := redisstore.New(redisstore.Options{
			Client:              rueidis.ClientOption{InitAddress: []string{server.Addr()}},
			AbstainAfterRestart: abstain,
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(store.Close)
		stores[i] = store
	}
	return ofNodes(t, Options{NodeTimeout: patient}, stores...)
}

// It is documented, and what AbstainAfterRestart is for.
func TestANodeThatForgetsByARestartLetsASecondHolderIn(t *testing.T) {
	first, second := request("x"), request("x")
	quorum, _ := afterRestart(t, 0, first)
	var fence int64
	eventually(t, "the second is granted the name", func() bool {
		result, err := quorum.Acquire(within(t), second)
		fence = result.Fence
		return err == nil && result.Granted
	})
	if result := extend(t, quorum, first); result.Err != nil || result.Answer != driver.Taken {
		t.Errorf("the first holder is told %+v", result)
	}
	if fence == 0 {
		t.Error("no fence")
	}
}

func TestANodeThatAbstainsAfterARestartLetsNobodyIn(t *testing.T) {
	const ttl = 3 * time.Second
	first, second := request("x"), request("x")
	first.TTL, second.TTL = ttl, ttl
	quorum, _ := afterRestart(t, ttl, first)
	granted := time.Now()
	for time.Since(granted) < ttl/2 {
		result, err := quorum.Acquire(within(t), second)
		if time.Since(granted) < ttl/2 && (result.Granted || !errors.Is(err, driver.ErrUnreachable)) {
			t.Fatalf("while the first may hold it: granted %v, %v", result.Granted, err)
		}
		if err != nil && !strings.Contains(err.Error(), "up for") && !strings.Contains(err.Error(), "refused") {
			t.Logf("in the meantime: %v", err)
		}
		time.Sleep(20 * time.Millisecond)
	}
	eventually(t, "the nodes grant again", func() bool {
		result, err := quorum.Acquire(within(t), second)
		return err == nil && result.Granted
	})
}

func TestAServerThatWasDownForTheReleaseIsFreedWhenItIsBackWithItsData(t *testing.T) {
	servers := startServers(t, 3)
	quorum := ofServers(t, 0, servers)
	req := request("x")
	acquire(t, quorum, req)
	isHeld := func(want int64) func() bool {
		return func() bool {
			n, err := servers[2].Do("EXISTS", "lock:x").AsInt64()
			return err == nil && n == want
		}
	}
	eventually(t, "the third has it too", isHeld(1))
	servers[2].Kill()
	release(t, quorum, req, driver.Mine)
	servers[2].Restart(true)
	eventually(t, "it is free", isHeld(0))
}

func TestAMinorityOfServersMayFailInAnyWay(t *testing.T) {
	servers := startServers(t, 3)
	proxy := redistest.NewProxy(t, servers[2].Addr())
	quorum := onAddressesWith(t, Options{NodeTimeout: 300 * time.Millisecond}, servers[0].Addr(), servers[1].Addr(), proxy.Addr())
	var last int64
	turn := func(how string) {
		t.Helper()
		for range 3 {
			req := request("x")
			result, err := quorum.Acquire(within(t), req)
			if err != nil || !result.Granted || result.Fence <= last {
				t.Fatalf("%s: granted %v with %d after %d, %v", how, result.Granted, result.Fence, last, err)
			}
			last = result.Fence
			if result := extend(t, quorum, req); result.Answer != driver.Mine {
				t.Errorf("%s: extended %+v", how, result)
			}
			release(t, quorum, req, driver.Mine)
		}
	}
	turn("all are well")
	for how, fail := range map[string]struct{ begin, end func() }{
		"a black hole":        {proxy.Drop, proxy.Heal},
		"slow":                {func() { proxy.Delay(50 * time.Millisecond) }, proxy.Heal},
		"replies are lost":    {proxy.DropReplies, proxy.Heal},
		"requests are lost":   {proxy.DropRequests, proxy.Heal},
		"connections are cut": {func() { proxy.CutAfter(1) }, proxy.Heal},
		"frozen":              {servers[2].Pause, servers[2].Resume},
		"killed":              {servers[2].Kill, func() { servers[2].Restart(true) }},
		"restarted empty":     {func() { servers[2].Restart(false) }, func() {}},
		"flushed":             {func() { flush(t, servers[2]) }, func() {}},
	} {
		fail.begin()
		turn(how)
		fail.end()
	}
	eventually(t, "the name is free at all servers", func() bool {
		for _, server := range servers {
			if n, err := server.Do("EXISTS", "lock:x").AsInt64(); err != nil || n != 0 {
				return false
			}
		}
		return true
	})
}
