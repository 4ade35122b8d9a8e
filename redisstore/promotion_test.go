package redisstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfastlock/holdfast"
	"github.com/holdfastlock/holdfast/driver"
	"github.com/holdfastlock/holdfast/internal/redistest"
)

// What becomes of locks when a node of a cluster dies or gives way.

func TestALeaseAndItsWaiterGoAlongWithAPromotedReplica(t *testing.T) {
	c := redistest.StartCluster(t, redistest.ClusterOptions{})
	holder := lockerOn(t, over(t, c), holdfast.Config{TTL: time.Minute})
	waiter := lockerOn(t, over(t, c), holdfast.Config{TTL: time.Minute})
	slot, primary := home(t, c, "report")
	lease := hold(t, holder)
	pass := func(promote func() *redistest.Process) {
		t.Helper()
		got := make(chan *holdfast.Lease)
		go func() { got <- holdAgain(t, waiter) }()
		eventually(t, "it waits", func() bool { return number(t, primary, "ZCARD", "lock:~q:{lock:report}") == 1 })
		do(t, primary, "SET", "{lock:report}", "") // WAIT answers for what its connection wrote
		if n := number(t, primary, "WAIT", "1", "5000"); n != 1 {
			t.Fatal("no replica has it")
		}
		primary = promote()
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
	pass(func() *redistest.Process {
		replica := c.Replica(primary)
		must(t, c.Failover(replica))
		must(t, c.WaitOK())
		return replica
	})
	pass(func() *redistest.Process {
		primary.Kill()
		owner, err := c.WaitFailover(slot, primary)
		must(t, err)
		return owner
	})
	must(t, lease.Release(within(t)))
}

// spreadOver acquires leases until each of the cluster's primaries has some.
func spreadOver(t *testing.T, c *redistest.Cluster, store *Store, ttl time.Duration) map[*redistest.Process][]driver.ExtendRequest {
	t.Helper()
	at := make(map[*redistest.Process][]driver.ExtendRequest)
	for i := range 30 {
		req := request(fmt.Sprintf("lease %d", i))
		req.TTL = ttl
		acquire(t, store, req)
		_, node := home(t, c, req.Name)
		at[node] = append(at[node], driver.ExtendRequest{Name: req.Name, Token: req.Token, TTL: ttl})
	}
	if len(at) != 3 {
		t.Fatalf("the leases are on %d nodes", len(at))
	}
	return at
}

func TestANodeThatDoesNotAnswerLeavesTheLeasesOnOthersAlone(t *testing.T) {
	c := redistest.StartCluster(t, redistest.ClusterOptions{WithoutReplicas: true, NodeTimeout: 2 * patience})
	store := openWith(t, Options{Client: rueidis.ClientOption{ // which waits long for the node
		InitAddress: c.Addrs(), ConnWriteTimeout: patience, Dialer: net.Dialer{Timeout: patience, KeepAlive: patience},
	}})
	at := spreadOver(t, c, store, time.Minute)
	frozen := c.Nodes[0]
	var all []driver.ExtendRequest
	var dead int // the first of all
	for _, node := range c.Nodes {
		all = append(all, at[node]...)
		if node == frozen {
			dead = len(all)
		}
	}
	frozen.Pause()
	defer frozen.Resume()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	for i, result := range store.Extend(ctx, all) {
		switch {
		case i < dead && !driver.Unknown(result.Err):
			t.Errorf("on the frozen node: %v, %v", result.Answer, result.Err)
		case i >= dead && (result.Err != nil || result.Answer != driver.Mine):
			t.Errorf("on another: %v, %v", result.Answer, result.Err)
		}
	}
}

func TestAClusterThatIsNotCompleteIsUnreachableUntilItIs(t *testing.T) {
	c := redistest.StartCluster(t, redistest.ClusterOptions{WithoutReplicas: true, Server: redistest.Options{AppendOnly: true}})
	store := over(t, c)
	at := spreadOver(t, c, store, time.Minute)
	dead := c.Nodes[2]
	dead.Kill()
	for node, extensions := range at {
		eventually(t, "its leases can't be extended", func() bool {
			result := store.Extend(within(t), extensions[:1])[0]
			if result.Err != nil {
				wantKind(t, result.Err, driver.ErrUnreachable)
			}
			return result.Err != nil && (node == dead || strings.Contains(result.Err.Error(), "CLUSTERDOWN"))
		})
	}
	must(t, dead.Restart(true))
	must(t, c.WaitOK())
	for _, extensions := range at {
		eventually(t, "all leases are extended", func() bool {
			for _, result := range store.Extend(within(t), extensions) {
				if result.Err != nil {
					return false
				}
				if result.Answer != driver.Mine {
					t.Fatalf("a lease is %v", result.Answer)
				}
			}
			return true
		})
	}
}

func TestAListOfAClusterNeedsNoReplica(t *testing.T) {
	c := redistest.StartCluster(t, redistest.ClusterOptions{})
	spreadOver(t, c, over(t, c), time.Minute)
	eventually(t, "the replicas are told of to clients", func() bool {
		for _, node := range c.Nodes {
			ranges, err := node.Do("CLUSTER", "SLOTS").ToArray()
			must(t, err)
			for _, slots := range ranges {
				if parts, _ := slots.ToArray(); len(parts) != 4 { // first, last, primary, replica
					return false
				}
			}
		}
		return true
	})
	store := over(t, c)
	list := func() (names int, err error) {
		for _, err := range store.List(within(t), "*") {
			if err != nil {
				return 0, err
			}
			names++
		}
		return names, nil
	}
	if n, err := list(); n != 30 || err != nil {
		t.Fatalf("%d names, %v", n, err)
	}
	c.Replica(c.Nodes[0]).Kill()
	if n, err := list(); n != 30 || err != nil {
		t.Errorf("without a replica: %d names, %v", n, err)
	}
	c.Nodes[1].Kill()
	if _, err := list(); !errors.Is(err, driver.ErrUnreachable) {
		t.Errorf("without a primary: %v", err)
	}
}
