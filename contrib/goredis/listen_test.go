package goredis

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfastlock/holdfast/internal/redistest"
	"github.com/holdfastlock/holdfast/redisstore"
)

// listening is a Listen under way.
type listening struct {
	joined chan struct{}
	heard  chan string
	end    context.CancelFunc
	ended  chan error
}

func listen(t *testing.T, conn redisstore.Conn, channel string, sharded bool) *listening {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	l := &listening{joined: make(chan struct{}, 1), heard: make(chan string, 100), end: cancel, ended: make(chan error, 1)}
	go func() {
		l.ended <- conn.Listen(ctx, channel, sharded, func() { l.joined <- struct{}{} }, func(text string) { l.heard <- text })
		close(l.ended)
	}()
	t.Cleanup(func() { cancel(); <-l.ended })
	soon(t, l.joined, "it listens")
	return l
}

func soon[T any](t *testing.T, c <-chan T, what string) (value T) {
	t.Helper()
	select {
	case value = <-c:
	case <-time.After(allow):
		t.Fatalf("not in %v: %s", allow, what)
	}
	return value
}

func TestWhatIsPublishedIsHeardUntilTheContextEnds(t *testing.T) {
	one, cluster := redistest.Start(t, redistest.Options{}), startCluster(t)
	for _, c := range []struct {
		server          *redistest.Server
		conn            redisstore.Conn
		publish, numsub string
		unsubscribe     string
		sharded         bool
	}{
		{one, connOf(t, clientOf(t, one.Addr())), "PUBLISH", "NUMSUB", "unsubscribe", false},
		{cluster, connOf(t, clusterClientOf(t, cluster.Addr())), "SPUBLISH", "SHARDNUMSUB", "sunsubscribe", true},
	} {
		l := listen(t, c.conn, "lock:~i:x", c.sharded)
		for _, text := range []string{"one", "another"} {
			if got := do(t, c.server, c.publish, "lock:~i:x", text); got != "1" {
				t.Errorf("%s: %s receivers", c.publish, got)
			}
		}
		if a, b := soon(t, l.heard, "the first"), soon(t, l.heard, "the second"); a != "one" || b != "another" {
			t.Errorf("%s: heard %q, %q", c.publish, a, b)
		}
		l.end()
		soon(t, l.ended, "Listen returns")
		if got := do(t, c.server, "PUBSUB", c.numsub, "lock:~i:x"); got != "[lock:~i:x 0]" {
			t.Errorf("afterwards %s says %s", c.numsub, got)
		}
		if n := c.server.CommandCounts()[c.unsubscribe]; n != 1 { // the end of a connection may be seen later
			t.Errorf("%d times %s", n, c.unsubscribe)
		}
	}
}

func TestASubscriptionThatIsDroppedEnds(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	conn := connOf(t, clientOf(t, server.Addr()))
	l := listen(t, conn, "x", false)
	connections := connectionsTo(t, server)
	do(t, server, "CLIENT", "KILL", "TYPE", "pubsub")
	if err := soon(t, l.ended, "Listen returns after CLIENT KILL"); err == nil {
		t.Error("after CLIENT KILL: no error")
	}
	if again := connectionsTo(t, server); again != connections {
		t.Errorf("%s connections after %s: the client has made it again without a word", again, connections)
	}
	l = listen(t, conn, "x", false)
	server.Restart(false)
	if err := soon(t, l.ended, "Listen returns after a restart"); err == nil {
		t.Error("after a restart: no error")
	}
	listen(t, conn, "x", false)
}

// connectionsTo says how many connections the server has been made so far.
func connectionsTo(t *testing.T, server *redistest.Server) string {
	t.Helper()
	_, rest, _ := strings.Cut(do(t, server, "INFO", "stats"), "total_connections_received:")
	count, _, _ := strings.Cut(rest, "\r\n")
	return count
}

func TestASubscriptionThatDoesNotAnswerEnds(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	proxy := redistest.NewProxy(t, server.Addr())
	l := listen(t, connOf(t, clientOf(t, proxy.Addr())), "x", false)
	proxy.Drop()
	if err := soon(t, l.ended, "Listen returns"); !errors.Is(err, errSilent) {
		t.Errorf("the error is %v", err)
	}
}

func TestAQuietSubscriptionGoesOn(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	l := listen(t, connOf(t, clientOf(t, server.Addr())), "x", false)
	eventually(t, "it was asked twice", func() bool { return server.CommandCounts()["ping"] >= 2 })
	do(t, server, "PUBLISH", "x", "after a while")
	if got := soon(t, l.heard, "the message"); got != "after a while" {
		t.Errorf("heard %q", got)
	}
}

func TestASubscriptionThatIsRefusedSaysSo(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	do(t, server, "ACL", "SETUSER", "default", "resetchannels")
	err := connOf(t, clientOf(t, server.Addr())).Listen(within(t), "x", false, func() {}, func(string) {})
	if said := (redisstore.ServerError)(""); !errors.As(err, &said) {
		t.Errorf("the error is %v", err)
	}
}
