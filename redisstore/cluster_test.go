package redisstore

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/redis/rueidis"

	"github.com/holdfastlock/holdfast/driver"
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
	_, err := store.Enqueue(within(t), driver.QueueRequest{AcquireRequest: request(reqs[0].Name), Inbox: "x", Keep: patience})
	wantKind(t, err, driver.ErrUnsupported)
	release(t, store, reqs[0], driver.Mine)
}

func mustBeCluster(_ context.Context, client rueidis.Client) (string, error) {
	if mode := client.Mode(); mode != rueidis.ClientModeCluster {
		return "", fmt.Errorf("the client's mode is %s", mode)
	}
	return "", nil
}
