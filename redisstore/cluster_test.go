package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfastlock/holdfast"
	"github.com/holdfastlock/holdfast/driver"
	"github.com/holdfastlock/holdfast/drivertest"
	"github.com/holdfastlock/holdfast/internal/redistest"
)

// cluster starts a cluster of one node that has all slots.
func cluster(t *testing.T) (*redistest.Server, *Store) {
	t.Helper()
	server := redistest.Start(t, redistest.Options{Args: []string{"--cluster-enabled", "yes"}})
	slots := make([]string, 0, 16386)
	slots = append(slots, "CLUSTER", "ADDSLOTS")
	for slot := range 16384 {
		slots = append(slots, fmt.Sprint(slot))
	}
	do(t, server, slots...)
	eventually(t, "the cluster is complete", func() bool {
		return strings.Contains(do(t, server, "CLUSTER", "INFO"), "cluster_state:ok")
	})
	return server, open(t, server.Addr())
}

func TestACluster(t *testing.T) {
	server, store := cluster(t)
	const leases = 250
	reqs := make([]driver.AcquireRequest, leases)
	extensions := make([]driver.ExtendRequest, leases)
	for i := range reqs {
		reqs[i] = request(fmt.Sprintf("lease %d", i))
		acquire(t, store, reqs[i])
		extensions[i] = driver.ExtendRequest{Name: reqs[i].Name, Token: reqs[i].Token, TTL: 2 * reqs[i].TTL}
	}
	if _, err := ask(within(t), store.connection, mustBeCluster); err != nil {
		t.Fatal(err)
	}
	counts := sent(t, server, func() {
		for i, result := range store.Extend(within(t), extensions) {
			if result.Err != nil || result.Answer != driver.Mine {
				t.Errorf("lease %d: %v, %v", i, result.Answer, result.Err)
			}
		}
	})
	if scripts := counts["evalsha"] + counts["eval"]; scripts < leases || scripts > 2*leases {
		t.Errorf("%d scripts for %d leases", scripts, leases)
	}
	listed := 0
	for _, err := range store.List(within(t), "lease *") {
		if err != nil {
			t.Fatal(err)
		}
		listed++
	}
	if listed != leases {
		t.Errorf("%d names listed, want %d", listed, leases)
	}
	release(t, store, reqs[0], driver.Mine)
}

func TestAClusterKeepsTheContract(t *testing.T) {
	server, _ := cluster(t) // it takes seconds to start
	drivertest.Run(t, func(t *testing.T) drivertest.Backend {
		do(t, server, "FLUSHALL")
		return drivertest.Backend{
			Open: func(t *testing.T) driver.Store { return open(t, server.Addr()) },
			Wipe: func(t *testing.T) { do(t, server, "FLUSHALL") },
		}
	})
}

// shards returns the channels for one name that are listened to.
func shards(t *testing.T, server *redistest.Server) []string {
	t.Helper()
	channels, err := server.Do("PUBSUB", "SHARDCHANNELS").AsStrSlice()
	if err != nil {
		t.Fatal(err)
	}
	return channels
}

func TestInAClusterEachNameThatIsWaitedForHasAChannel(t *testing.T) {
	server, store := cluster(t)
	inbox := listen(t, store)
	names := []string{"one", "another", "{tag}third"}
	for _, name := range names {
		held := request(name)
		acquire(t, store, held)
		req := waiting(t, store, name, inbox, 0)
		release(t, store, held, driver.Mine)
		told(t, inbox, req)
		claim(t, store, req)
	}
	if got := shards(t, server); len(got) != len(names) {
		t.Errorf("channels %q, want %d", got, len(names))
	}
	for range names {
		hinted(t, inbox) // when its channel is listened to, at first
	}
	do(t, server, "CLIENT", "KILL", "TYPE", "pubsub")
	for range names {
		hinted(t, inbox)
	}
	inbox.Close()
	if got := shards(t, server); len(got) != 0 {
		t.Errorf("channels %q after Close", got)
	}
}

func TestInAClusterAChannelEndsWhenNobodyAsksForItsName(t *testing.T) {
	server, store := cluster(t)
	inbox := listen(t, store)
	acquire(t, store, request("short"))
	req := driver.QueueRequest{AcquireRequest: request("short"), Inbox: inbox.Address(), Keep: 100 * time.Millisecond}
	for range 2 {
		waits(t, store, req, 0)
		eventually(t, "it is listened to", func() bool { return len(shards(t, server)) == 1 })
		eventually(t, "it is not any more", func() bool { return len(shards(t, server)) == 0 })
	}
}

func TestInAClusterAWaiterThatHasGoneIsPassedOver(t *testing.T) {
	_, store := cluster(t)
	inbox, gone := listen(t, store), listen(t, store)
	held := request("passed over")
	acquire(t, store, held)
	waiting(t, store, held.Name, gone, 0)
	req := waiting(t, store, held.Name, inbox, 1)
	gone.Close()
	release(t, store, held, driver.Mine)
	told(t, inbox, req)
}

func mustBeCluster(_ context.Context, conn Conn) (string, error) {
	if !conn.Cluster() {
		return "", errors.New("the client is not one of a cluster")
	}
	return "", nil
}

func TestInAClusterALockGoesFromOneLockerToTheNext(t *testing.T) {
	server, _ := cluster(t)
	lockers := []*holdfast.Locker{locker(t, server.Addr(), holdfast.Config{}), locker(t, server.Addr(), holdfast.Config{})}
	lease := hold(t, lockers[0])
	const times = 20
	sums := make(map[string]int)
	for i := range times {
		next := make(chan *holdfast.Lease)
		go func() { next <- hold(t, lockers[(i+1)%2]) }()
		eventually(t, "the other waits", func() bool { return number(t, server, "ZCARD", "lock:~q:{lock:report}") == 1 })
		for name, n := range sent(t, server, func() {
			if err := lease.Release(within(t)); err != nil {
				t.Error(err)
			}
			lease = <-next
		}) {
			sums[name] += n
		}
	}
	// At first the scripts are not known, and a channel that begins is a hint.
	if sums["spublish"] != times || sums["evalsha"] > 2*times+5 {
		t.Errorf("commands %v, want a message and two scripts each of %d times", sums, times)
	}
	if err := lease.Release(within(t)); err != nil {
		t.Error(err)
	}
}
