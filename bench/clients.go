package main

import (
	"context"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/holdfastlock/holdfast"
	contrib "github.com/holdfastlock/holdfast/contrib/goredis"
	"github.com/holdfastlock/holdfast/redisstore"
)

// onClients is for chosen: holdfast on its own client and on others.
var onClients = only("holdfast", "holdfast-rueidis", "holdfast-goredis")

func openGivenRueidis(_ context.Context, addr string, ttl time.Duration) (locks, error) {
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, DisableRetry: true})
	if err != nil {
		return nil, err
	}
	return lockThrough(redisstore.Rueidis(client), client.Close, ttl)
}

func openGivenGoRedis(_ context.Context, addr string, ttl time.Duration) (locks, error) {
	client := goredis.NewClient(&goredis.Options{Addr: addr, ContextTimeoutEnabled: true})
	conn, err := contrib.Conn(client)
	if err != nil {
		client.Close()
		return nil, err
	}
	return lockThrough(conn, func() { client.Close() }, ttl)
}

// lockThrough closes the client if it fails.
func lockThrough(conn redisstore.Conn, closeClient func(), ttl time.Duration) (locks, error) {
	store, err := redisstore.New(redisstore.Options{Conn: conn})
	if err != nil {
		closeClient()
		return nil, err
	}
	closeAll := func() {
		store.Close()
		closeClient()
	}
	return lockOn(store, closeAll, holdfast.Config{TTL: ttl})
}
