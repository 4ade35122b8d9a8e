package goredis

import (
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/holdfastlock/holdfast/internal/redistest"
)

// leastRights is what docs/stores.md grants, for the queue of waiters of one
// server; inACluster is what README.md and docs/stores.md add there.
const (
	leastRights = "on >password resetkeys resetchannels ~lock:* &lock:* -@all " +
		"+evalsha +eval +get +set +del +pttl +pexpire +hset +hmget +hlen +hgetall +hdel +time +ping +scan +info " +
		"+zadd +zrank +zrem +zpopmin +publish +subscribe +unsubscribe"
	inACluster = "+spublish +ssubscribe +sunsubscribe +cluster|slots +command"
)

func TestAUserWithFewRightsCanLockAndWait(t *testing.T) {
	one, cluster := redistest.Start(t, redistest.Options{}), startCluster(t)
	for _, server := range []*redistest.Server{one, cluster} {
		rights := strings.Fields(leastRights)
		if server == cluster {
			rights = append(rights, strings.Fields(inACluster)...)
		}
		do(t, server, slices.Concat([]string{"ACL", "SETUSER", "holdfast"}, rights)...)
		client := redis.NewUniversalClient(&redis.UniversalOptions{
			Addrs: []string{server.Addr()}, IsClusterMode: server == cluster,
			Username: "holdfast", Password: "password", ContextTimeoutEnabled: true,
		})
		t.Cleanup(func() { client.Close() })
		locker := lockerOver(t, client)
		lease := <-holding(t, locker)
		other := lockerOver(t, client)
		next := holding(t, other)
		eventually(t, "it waits", func() bool { return do(t, server, "ZCARD", "lock:~q:{lock:report}") == "1" })
		if err := lease.Release(within(t)); err != nil {
			t.Error(err)
		}
		if err := soon(t, next, "the waiter holds it").Release(within(t)); err != nil {
			t.Error(err)
		}
		// Where the client may not know the commands, it asks again for each.
		if denied := do(t, server, "ACL", "LOG"); strings.Contains(denied, "object:command") {
			t.Errorf("denied: %s", denied)
		}
	}
}
