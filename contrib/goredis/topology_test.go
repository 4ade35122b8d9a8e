package goredis

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/holdfastlock/holdfast/driver"
	"github.com/holdfastlock/holdfast/internal/redistest"
	"github.com/holdfastlock/holdfast/redisstore"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// clusterOf returns a cluster and a client of all its nodes.
func clusterOf(t *testing.T, options redistest.ClusterOptions) (*redistest.Cluster, *redis.ClusterClient) {
	t.Helper()
	cluster := redistest.StartCluster(t, options)
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: cluster.Addrs(), ContextTimeoutEnabled: true})
	t.Cleanup(func() { client.Close() })
	return cluster, client
}

// move moves the slot of a name to another node.
func move(t *testing.T, cluster *redistest.Cluster, name string) {
	t.Helper()
	slot, err := cluster.Slot(redisstore.DefaultPrefix + name)
	must(t, err)
	migration, err := cluster.Migrate(slot, cluster.Other(cluster.Owner(slot)))
	must(t, err)
	must(t, migration.Finish())
}

func TestAClientOfSentinelFollowsThePrimary(t *testing.T) {
	sentinels := redistest.StartSentinels(t, redistest.SentinelOptions{})
	client := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: redistest.MasterSet, SentinelAddrs: sentinels.Addrs()})
	defer client.Close()
	store := storeOver(t, client, redisstore.Options{})
	restored := make(chan struct{}, 100)
	inbox := store.OpenInbox(driver.Listener{Restored: func() { restored <- struct{}{} }})
	defer inbox.Close()
	soon(t, restored, "the inbox listens")
	before := acquire(t, store, request("x"))
	_, err := sentinels.Failover()
	must(t, err)
	var after driver.AcquireResult
	eventually(t, "the new primary grants", func() bool {
		after, err = store.Acquire(within(t), request("y"))
		return err == nil
	})
	if !after.Granted || after.Fence <= before.Fence {
		t.Errorf("%+v after fence %d", after, before.Fence)
	}
	soon(t, restored, "the inbox listens again")
}

func TestNamesOfAllNodesOfAClusterAreListed(t *testing.T) {
	_, client := clusterOf(t, redistest.ClusterOptions{WithoutReplicas: true})
	store := storeOver(t, client, redisstore.Options{})
	names := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
	for _, name := range names {
		acquire(t, store, request(name))
	}
	listed := 0
	for _, err := range store.List(within(t), "*") {
		must(t, err)
		listed++
	}
	if listed != len(names) {
		t.Errorf("%d names listed, want %d", listed, len(names))
	}
}

func TestAGrantThatWaitsFollowsItsSlot(t *testing.T) {
	cluster, client := clusterOf(t, redistest.ClusterOptions{})
	store := storeOver(t, client, redisstore.Options{WaitReplicas: 1, WaitTimeout: allow})
	for _, name := range []string{"{durable}before", "{durable}after"} {
		// At once: the client has not looked at the cluster again.
		if result := acquire(t, store, request(name)); result.Replicas != 1 {
			t.Errorf("%s: %d replicas", name, result.Replicas)
		}
		move(t, cluster, name)
	}
}

func TestASubscriptionEndsWhenItsSlotGoes(t *testing.T) {
	cluster, client := clusterOf(t, redistest.ClusterOptions{WithoutReplicas: true})
	conn := connOf(t, client)
	const channel = redisstore.DefaultPrefix + "x"
	l := listen(t, conn, channel, true)
	move(t, cluster, "x")
	if err := soon(t, l.ended, "Listen returns"); err != nil {
		t.Errorf("the error is %v", err)
	}
	eventually(t, "it can be made on the new node", func() bool {
		ctx, cancel := context.WithCancel(within(t))
		defer cancel()
		joined := false
		err := conn.Listen(ctx, channel, true, func() { joined = true; cancel() }, func(string) {})
		return joined && err == nil
	})
}

// By itself the client would look once a minute.
func TestAPromotedReplicaIsFound(t *testing.T) {
	cluster, client := clusterOf(t, redistest.ClusterOptions{})
	store := storeOver(t, client, redisstore.Options{})
	acquire(t, store, request("{x}before"))
	slot, err := cluster.Slot(redisstore.DefaultPrefix + "{x}before")
	must(t, err)
	primary := cluster.Owner(slot)
	primary.Kill()
	_, err = cluster.WaitFailover(slot, primary)
	must(t, err)
	eventually(t, "it grants", func() bool {
		result, err := store.Acquire(within(t), request("{x}after"))
		return err == nil && result.Granted
	})
}
