package goredis

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/holdfastlock/holdfast"
	"github.com/holdfastlock/holdfast/internal/redistest"
	"github.com/holdfastlock/holdfast/redisstore"
)

func lockerOver(t *testing.T, client redis.UniversalClient) *holdfast.Locker {
	t.Helper()
	locker, err := holdfast.New(storeOver(t, client, redisstore.Options{}), holdfast.Config{TTL: 4 * allow})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), allow)
		defer cancel()
		locker.Close(ctx)
	})
	return locker
}

// By its timer alone a waiter would look when the holder's TTL ends, which is
// longer than the test waits.
func TestAWaiterMissesNoReleaseThoughItsSubscriptionIsDropped(t *testing.T) {
	one, cluster := redistest.Start(t, redistest.Options{}), startCluster(t)
	for _, c := range []struct {
		server *redistest.Server
		a, b   redis.UniversalClient
	}{
		{one, clientOf(t, one.Addr()), clientOf(t, one.Addr())},
		{cluster, clusterClientOf(t, cluster.Addr()), clusterClientOf(t, cluster.Addr())},
	} {
		holder, waiter := lockerOver(t, c.a), lockerOver(t, c.b)
		lease := <-holding(t, holder)
		for range 10 {
			next := holding(t, waiter)
			eventually(t, "it waits", func() bool { return do(t, c.server, "ZCARD", "lock:~q:{lock:report}") == "1" })
			do(t, c.server, "CLIENT", "KILL", "TYPE", "pubsub")
			if err := lease.Release(within(t)); err != nil {
				t.Error(err)
			}
			lease = soon(t, next, "the waiter holds it")
			holder, waiter = waiter, holder
		}
		if err := lease.Release(within(t)); err != nil {
			t.Error(err)
		}
	}
}

// holding acquires the name, waiting for it if need be.
func holding(t *testing.T, locker *holdfast.Locker) <-chan *holdfast.Lease {
	t.Helper()
	got := make(chan *holdfast.Lease, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 2*allow)
	t.Cleanup(cancel)
	go func() {
		lease, err := locker.Acquire(ctx, "report")
		if err != nil {
			t.Error(err)
		}
		got <- lease
	}()
	return got
}
