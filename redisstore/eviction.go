package redisstore

import (
	"context"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// warnOfEviction calls warn if a server may evict keys. That it can't be found
// out is no reason not to lock.
func warnOfEviction(client rueidis.Client, warn func(string)) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	for _, node := range client.Nodes() {
		info, err := node.Do(ctx, node.B().Info().Section("memory").Build()).ToString()
		if err != nil {
			continue
		}
		_, rest, found := strings.Cut(info, "maxmemory_policy:")
		policy, _, _ := strings.Cut(rest, "\r\n")
		if found && policy != "noeviction" {
			warn("Redis has maxmemory-policy " + policy + ": when memory is full it may drop a lock that is held, " +
				"and then two hold it; CONFIG SET maxmemory-policy noeviction, or use a server of its own for locks")
			return
		}
	}
}
