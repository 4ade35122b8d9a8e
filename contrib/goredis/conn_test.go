package goredis

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfastlock/holdfast/driver"
	"github.com/holdfastlock/holdfast/internal/redistest"
	"github.com/holdfastlock/holdfast/redisstore"
)

// words makes a command without a key.
func words(words ...string) redisstore.Command { return redisstore.Command{Words: words} }

func TestAClientThatCannotBeUsedIsRefusedWithAReason(t *testing.T) {
	address := []string{"127.0.0.1:1"}
	for reason, client := range map[string]redis.UniversalClient{
		"quorum":            redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": address[0]}}),
		"the *redis.Client": struct{ *redis.Client }{redis.NewClient(&redis.Options{Addr: address[0]})},
		"at most (now 5s":   redis.NewClusterClient(&redis.ClusterOptions{Addrs: address}),
		"at most (now 0s":   redis.NewClusterClient(&redis.ClusterOptions{Addrs: address, ReadTimeout: -1}),
		"RouteByLatency":    redis.NewClusterClient(&redis.ClusterOptions{Addrs: address, ContextTimeoutEnabled: true, RouteByLatency: true}),
		"NewFailoverClient": redis.NewFailoverClusterClient(&redis.FailoverOptions{MasterName: "m", SentinelAddrs: address}),
	} {
		conn, err := Conn(client)
		wantKind(t, err, driver.ErrMisconfigured)
		if conn != nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("%T: %v, %v, want %q", client, conn, err, reason)
		}
		client.Close()
	}
	short := redis.NewClusterClient(&redis.ClusterOptions{Addrs: address, ReadTimeout: time.Second})
	defer short.Close()
	connOf(t, short)
}

func TestAClientStaysTheCallers(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	client := clientOf(t, server.Addr())
	store := storeOver(t, client, redisstore.Options{})
	acquire(t, store, request("x"))
	store.Close()
	if err := client.Ping(within(t)).Err(); err != nil {
		t.Errorf("after the store's Close: %v", err)
	}
}

func TestAnswersOfEveryKindAreRead(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	conn := connOf(t, clientOf(t, server.Addr()))
	const script = "return {'text', 7, false, {}, {'in', {ok = 'status'}}, {err = 'WRONGTYPE in a list'}}"
	for _, c := range []struct {
		command redisstore.Command
		want    redisstore.Reply
	}{
		{words("PING"), redisstore.Reply{Text: "PONG"}},
		{words("GET", "none"), redisstore.Reply{Null: true}},
		{words("INCR", "n"), redisstore.Reply{Int: 1}},
		{words("ZREVRANGE", "none", "0", "-1"), redisstore.Reply{List: []redisstore.Reply{}}},
		{words("NONSENSE"), redisstore.Reply{Err: redisstore.ServerError("ERR unknown command 'NONSENSE', with args beginning with: ")}},
		{words("HGETALL", "none"), redisstore.Reply{Err: errors.New("an answer of type map[interface {}]interface {}")}},
		{words("EVAL", script, "0"), redisstore.Reply{List: []redisstore.Reply{
			{Text: "text"}, {Int: 7}, {Null: true},
			{List: []redisstore.Reply{}},
			{List: []redisstore.Reply{{Text: "in"}, {Text: "status"}}},
			{Err: redisstore.ServerError("WRONGTYPE in a list")},
		}}},
	} {
		got := conn.Do(within(t), c.command)
		if shown, want := fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", c.want); shown != want || (got.List == nil) != (c.want.List == nil) {
			t.Errorf("%s: %s, want %s", c.command.Words[0], shown, want)
		}
	}
}

func TestCommandsTogetherAreAnsweredInTheirOrder(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	conn := connOf(t, clientOf(t, server.Addr()))
	got := conn.DoMany(within(t), []redisstore.Command{words("ECHO", "a"), words("NONSENSE"), words("GET", "none"), words("ECHO", "b")})
	var refused redisstore.ServerError
	if len(got) != 4 || got[0].Text != "a" || !errors.As(got[1].Err, &refused) || !got[2].Null || got[3].Text != "b" {
		t.Errorf("answers %+v", got)
	}
}

// Such commands have neither an answer nor an error of their own.
func TestCommandsTogetherThatNoConnectionTakesAllFail(t *testing.T) {
	server := redistest.Start(t, redistest.Options{Password: "secret"})
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), Password: "wrong"})
	defer client.Close()
	for _, reply := range connOf(t, client).DoMany(within(t), []redisstore.Command{words("PING"), words("PING")}) {
		var refused redisstore.ServerError
		if !errors.As(reply.Err, &refused) || !strings.HasPrefix(refused.Error(), "WRONGPASS") {
			t.Errorf("answer %+v, want WRONGPASS", reply)
		}
	}
}

func TestAScriptThatTheServerForgotIsSentAgain(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	store := storeOver(t, clientOf(t, server.Addr()), redisstore.Options{})
	for _, name := range []string{"new", "forgotten"} {
		req := request(name)
		do(t, server, "SCRIPT", "FLUSH")
		acquire(t, store, req)
		do(t, server, "SCRIPT", "FLUSH")
		extended := store.Extend(within(t), []driver.ExtendRequest{{Name: name, Token: req.Token, TTL: req.TTL}})[0]
		if extended.Answer != driver.Mine || extended.Err != nil {
			t.Errorf("extend: %+v", extended)
		}
	}
}

func clientID(t *testing.T, conn redisstore.Conn) int64 {
	t.Helper()
	reply := conn.Do(within(t), words("CLIENT", "ID"))
	if reply.Err != nil {
		t.Error(reply.Err)
	}
	return reply.Int
}

func TestAConnectionApartIsUsedByNoOtherCall(t *testing.T) {
	for what, client := range clients(t) {
		conn := connOf(t, client)
		err := conn.Apart(within(t), "x", func(one redisstore.Conn) error {
			id := clientID(t, one)
			var calls sync.WaitGroup
			for range 10 {
				calls.Go(func() {
					_ = conn.Apart(within(t), "x", func(other redisstore.Conn) error {
						if clientID(t, other) == id {
							t.Errorf("%s: another call has it", what)
						}
						return nil
					})
				})
			}
			calls.Wait()
			if again := clientID(t, one); again != id {
				t.Errorf("%s: connection %d, then %d", what, id, again)
			}
			return nil
		})
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// clients returns one of each kind, that can be used with a server of its own.
func clients(t *testing.T) map[string]redis.UniversalClient {
	t.Helper()
	return map[string]redis.UniversalClient{
		"one server": clientOf(t, redistest.Start(t, redistest.Options{}).Addr()),
		"a cluster":  clusterClientOf(t, startCluster(t).Addr()),
	}
}

func TestAGrantWaitsForTheReplicas(t *testing.T) {
	primary := redistest.Start(t, redistest.Options{Args: []string{"--repl-diskless-sync-delay", "0"}})
	_, port, _ := strings.Cut(primary.Addr(), ":")
	replica := redistest.Start(t, redistest.Options{Args: []string{"--replicaof", "127.0.0.1", port}})
	eventually(t, "the replica follows", func() bool {
		do(t, primary, "SET", "before", "") // WAIT answers for what its connection wrote
		return do(t, primary, "WAIT", "1", "100") == "1"
	})
	store := storeOver(t, clientOf(t, primary.Addr()), redisstore.Options{WaitReplicas: 1, WaitTimeout: allow})
	if result := acquire(t, store, request("x")); result.Replicas != 1 {
		t.Errorf("%d replicas have the grant, want 1", result.Replicas)
	}
	replica.Pause()
	defer replica.Resume()
	// Longer than any other call may take.
	store = storeOver(t, clientOf(t, primary.Addr()), redisstore.Options{WaitReplicas: 1, WaitTimeout: patience + patience/2})
	_, err := store.Acquire(within(t), request("y"))
	wantKind(t, err, driver.ErrRefused)
}

func TestAGrantWaitsForTheDisk(t *testing.T) {
	server := redistest.Start(t, redistest.Options{AppendOnly: true})
	store := storeOver(t, clientOf(t, server.Addr()), redisstore.Options{WaitFsync: true, WaitTimeout: allow})
	if do(t, server, "COMMAND", "INFO", "WAITAOF") != "[<nil>]" {
		acquire(t, store, request("x"))
		return
	}
	_, err := store.Acquire(within(t), request("x"))
	wantKind(t, err, driver.ErrRefused)
}

func TestAWaitOfNonsenseIsAnError(t *testing.T) {
	client := clientOf(t, "127.0.0.1:1")
	if reply := connOf(t, client).Do(context.Background(), words("WAIT", "one", "100")); reply.Err == nil {
		t.Errorf("answer %+v", reply)
	}
}
