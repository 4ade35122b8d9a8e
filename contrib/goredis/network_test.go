package goredis

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfastlock/holdfast/driver"
	"github.com/holdfastlock/holdfast/internal/redistest"
	"github.com/holdfastlock/holdfast/redisstore"
)

// behindProxy returns clients of each kind with their server, which they know
// only by way of the proxy.
type behindProxy struct {
	server *redistest.Server
	proxy  *redistest.Proxy
	client redis.UniversalClient
}

func behindProxies(t *testing.T) map[string]behindProxy {
	t.Helper()
	one := redistest.Start(t, redistest.Options{})
	oneProxy := redistest.NewProxy(t, one.Addr())
	// None of its own limits would do.
	patient := redis.NewClient(&redis.Options{Addr: oneProxy.Addr(), ReadTimeout: -1, PoolTimeout: time.Hour})
	t.Cleanup(func() { patient.Close() })

	cluster := startCluster(t)
	clusterProxy := redistest.NewProxy(t, cluster.Addr())
	announce(t, cluster, clusterProxy.Addr())
	return map[string]behindProxy{
		"one server": {one, oneProxy, patient},
		"a cluster":  {cluster, clusterProxy, clusterClientOf(t, clusterProxy.Addr())},
	}
}

func TestNothingIsSentTwice(t *testing.T) {
	for what, b := range behindProxies(t) {
		conn := connOf(t, b.client)
		incr := redisstore.Command{Words: []string{"INCR", "n"}, FirstKey: 1}
		ways := map[string]func() redisstore.Reply{
			"alone":    func() redisstore.Reply { return conn.Do(within(t), incr) },
			"together": func() redisstore.Reply { return conn.DoMany(within(t), []redisstore.Command{incr})[0] },
			"apart": func() (reply redisstore.Reply) {
				_ = conn.Apart(within(t), "n", func(one redisstore.Conn) error {
					reply = one.Do(within(t), incr)
					return nil
				})
				return reply
			},
		}
		for way, send := range ways {
			if reply := send(); reply.Err != nil { // it has connected
				t.Errorf("%s, %s: %v", what, way, reply.Err)
			}
			do(t, b.server, "SET", "n", "0")
			b.proxy.DropRepliesTo("INCR")
			replies := make(chan redisstore.Reply)
			go func() { replies <- send() }()
			eventually(t, "it has run", func() bool { return do(t, b.server, "GET", "n") != "0" })
			b.proxy.Heal() // which breaks the connection: the client could send it again
			if reply := <-replies; reply.Err == nil {
				t.Errorf("%s, %s: answer %+v", what, way, reply)
			}
			if got := do(t, b.server, "GET", "n"); got != "1" {
				t.Errorf("%s, %s: it ran %s times", what, way, got)
			}
		}
	}
}

func TestAServerThatIsDownIsUnreachableUntilItIsUp(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	store := storeOver(t, clientOf(t, server.Addr()), redisstore.Options{})
	acquire(t, store, request("before"))
	server.Kill()
	_, err := store.Acquire(within(t), request("x"))
	wantKind(t, err, driver.ErrUnreachable)
	server.Restart(false)
	eventually(t, "the store works again", func() bool {
		_, err := store.Acquire(within(t), request("y"))
		return err == nil
	})
}

func TestACallInABlackHoleEndsByItself(t *testing.T) {
	for what, b := range behindProxies(t) {
		conn := connOf(t, b.client)
		echo := func(conn redisstore.Conn, text string) redisstore.Reply {
			return conn.Do(context.Background(), redisstore.Command{Words: []string{"EVAL", "return ARGV[1]", "1", "x", text}, FirstKey: 3})
		}
		if reply := echo(conn, "connects"); reply.Err != nil {
			t.Fatalf("%s: %v", what, reply.Err)
		}
		b.proxy.Drop()
		if reply := echo(conn, "lost"); reply.Err == nil {
			t.Errorf("%s: answer %+v", what, reply)
		}
		if reply := conn.DoMany(context.Background(), []redisstore.Command{{Words: []string{"GET", "x"}, FirstKey: 1}})[0]; reply.Err == nil {
			t.Errorf("%s, together: answer %+v", what, reply)
		}
		err := conn.Apart(context.Background(), "x", func(one redisstore.Conn) error { return echo(one, "lost").Err })
		if err == nil {
			t.Errorf("%s, apart: no error", what)
		}
		b.proxy.Heal() // and what it held arrives
		eventually(t, "it works again, and no old answer is taken for a new one", func() bool {
			reply := echo(conn, "found")
			return reply.Err == nil && reply.Text == "found"
		})
	}
}

func TestACallThatGetsNoConnectionEndsByItself(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), PoolSize: 1, PoolTimeout: time.Hour})
	defer client.Close()
	conn := connOf(t, client)
	err := conn.Apart(within(t), "x", func(one redisstore.Conn) error {
		one.Do(within(t), words("PING"))
		return conn.Do(context.Background(), words("PING")).Err
	})
	if err == nil || errors.Is(err, redis.ErrPoolTimeout) {
		t.Errorf("the error is %v", err)
	}
}

func TestAfterALostAnswerAConnectionApartIsNotUsed(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	proxy := redistest.NewProxy(t, server.Addr())
	conn := connOf(t, clientOf(t, proxy.Addr()))
	err := conn.Apart(within(t), "x", func(one redisstore.Conn) error {
		if reply := one.Do(within(t), words("ECHO", "a")); reply.Text != "a" {
			t.Errorf("answer %+v", reply)
		}
		proxy.Drop()
		if reply := one.Do(within(t), words("ECHO", "lost")); reply.Err == nil {
			t.Errorf("answer %+v", reply)
		}
		proxy.Heal()
		return one.Do(within(t), words("ECHO", "b")).Err
	})
	if err == nil {
		t.Error("it was used again")
	}
}
