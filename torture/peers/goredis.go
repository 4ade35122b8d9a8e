package main

import (
	"time"

	"github.com/redis/go-redis/v9"
)

// Every client is as patient as that of holdfast's store is by default.
const (
	replyTimeout = 500 * time.Millisecond
	dialTimeout  = time.Second
	tcpKeepAlive = 250 * time.Millisecond // rueidis also asks for a sign of life that often
)

// prefix begins the key of each lock. The harness finds by it what is left, and
// the commands whose replies it loses.
const prefix = "lock:"

// newGoRedis returns the client of redislock and redsync.
func newGoRedis(url string) (*redis.Client, error) {
	options, err := redis.ParseURL(url)
	if err != nil {
		return nil, err
	}
	// Contexts do not reach the connection, as by default: with
	// ContextTimeoutEnabled an acquire whose context ends while the request is
	// under way would leave the lock taken.
	options.ReadTimeout, options.WriteTimeout, options.DialTimeout = replyTimeout, replyTimeout, dialTimeout
	return redis.NewClient(options), nil
}
