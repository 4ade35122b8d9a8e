package goredis

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfastlock/holdfast/driver"
	"github.com/holdfastlock/holdfast/internal/redistest"
	"github.com/holdfastlock/holdfast/redisstore"
)

// allow is how long a condition that must come true may take.
const allow = 15 * time.Second

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), allow)
	t.Cleanup(cancel)
	return ctx
}

// clientOf returns a client with the options that it has by itself.
func clientOf(t *testing.T, address string) *redis.Client {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: address})
	t.Cleanup(func() { client.Close() })
	return client
}

func clusterClientOf(t *testing.T, address string) *redis.ClusterClient {
	t.Helper()
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{address}, ContextTimeoutEnabled: true})
	t.Cleanup(func() { client.Close() })
	return client
}

func connOf(t *testing.T, client redis.UniversalClient) redisstore.Conn {
	t.Helper()
	conn, err := Conn(client)
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

func storeOver(t *testing.T, client redis.UniversalClient, options redisstore.Options) *redisstore.Store {
	t.Helper()
	options.Conn = connOf(t, client)
	store, err := redisstore.New(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	return store
}

// startCluster starts a cluster of one node that has all slots.
func startCluster(t *testing.T) *redistest.Server {
	t.Helper()
	server := redistest.Start(t, redistest.Options{Args: []string{"--cluster-enabled", "yes"}})
	do(t, server, "CLUSTER", "ADDSLOTSRANGE", "0", "16383")
	eventually(t, "the cluster is complete", func() bool {
		return strings.Contains(do(t, server, "CLUSTER", "INFO"), "cluster_state:ok")
	})
	return server
}

// do runs a command that must not fail, and returns what it says as a text.
func do(t *testing.T, server *redistest.Server, words ...string) string {
	t.Helper()
	reply, err := server.Do(words...).ToAny()
	if err != nil {
		t.Fatalf("%v: %v", words, err)
	}
	return fmt.Sprint(reply)
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(allow); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not true after %v: %s", allow, what)
		}
	}
}

func request(name string) driver.AcquireRequest {
	return driver.AcquireRequest{Name: name, Token: driver.NewToken("host/1"), TTL: time.Minute}
}

func acquire(t *testing.T, store *redisstore.Store, req driver.AcquireRequest) driver.AcquireResult {
	t.Helper()
	result, err := store.Acquire(within(t), req)
	if err != nil || !result.Granted {
		t.Fatalf("Acquire %q: granted %v, %v", req.Name, result.Granted, err)
	}
	return result
}

func wantKind(t *testing.T, err, kind error) {
	t.Helper()
	var known *driver.Error
	if !errors.Is(err, kind) || !errors.As(err, &known) {
		t.Errorf("error %v, want %v", err, kind)
	}
}

// announce has the only node of a cluster tell its clients that address.
func announce(t *testing.T, server *redistest.Server, address string) {
	t.Helper()
	_, port, _ := strings.Cut(address, ":")
	do(t, server, "CONFIG", "SET", "cluster-announce-port", port)
	eventually(t, "the node announces the address", func() bool {
		return strings.Contains(do(t, server, "CLUSTER", "SLOTS"), port)
	})
}
