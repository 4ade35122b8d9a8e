package redisstore

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/redis/rueidis"

	"github.com/holdfastlock/holdfast/internal/redistest"
)

// spy is a Conn that counts round trips, and can meddle.
type spy struct {
	Conn
	with *meddling
}

type meddling struct {
	trips atomic.Int32
	// before, if not nil, is called with what is about to be sent.
	before atomic.Pointer[func(commands []Command)]
	// instead, if not nil, answers commands in place of the server.
	instead func(conn Conn, command Command) (Reply, bool)
}

func (s spy) Do(ctx context.Context, command Command) Reply {
	return s.DoMany(ctx, []Command{command})[0]
}

func (s spy) DoMany(ctx context.Context, commands []Command) []Reply {
	s.with.trips.Add(1)
	if before := s.with.before.Load(); before != nil {
		(*before)(commands)
	}
	if s.with.instead == nil {
		return s.Conn.DoMany(ctx, commands)
	}
	replies := make([]Reply, len(commands))
	for i, command := range commands {
		reply, answered := s.with.instead(s.Conn, command)
		if !answered {
			reply = s.Conn.Do(ctx, command)
		}
		replies[i] = reply
	}
	return replies
}

func (s spy) Apart(ctx context.Context, key string, fn func(Conn) error) error {
	return s.Conn.Apart(ctx, key, func(alone Conn) error { return fn(spy{alone, s.with}) })
}

// spied returns a store whose ACL user has the rules, and a way to look on and to
// meddle.
func spied(t *testing.T, server *redistest.Server, with *meddling, rules ...string) *Store {
	t.Helper()
	do(t, server, append([]string{"ACL", "SETUSER", "spied", "reset", "on", ">pw"}, rules...)...)
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{server.Addr()}, Username: "spied", Password: "pw", DisableRetry: true, DisableCache: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return openWith(t, Options{Conn: spy{Rueidis(client), with}})
}

// between has act done once, just before the next transaction is sent.
func (m *meddling) between(act func()) {
	var before func([]Command)
	before = func(commands []Command) {
		if commands[0].Words[0] == "MULTI" && commands[1].Words[0] != "EXEC" {
			m.before.CompareAndSwap(&before, nil)
			act()
		}
	}
	m.before.Store(&before)
}

// tripsOf counts the round trips of act.
func (m *meddling) tripsOf(act func()) int {
	before := m.trips.Load()
	act()
	return int(m.trips.Load() - before)
}

// native has the server know this command that deletes by value, and no other.
func native(name string) func(Conn, Command) (Reply, bool) {
	return func(conn Conn, c Command) (Reply, bool) {
		ctx := context.Background()
		value := c.Words[len(c.Words)-1]
		switch verb := c.Words[0]; {
		case verb != "DELIFEQ" && verb != "DELEX":
			return Reply{}, false
		case verb != name:
			return Reply{Err: ServerError("ERR unknown command '" + verb + "', with args beginning with: 'x' ")}, true
		default:
			if conn.Do(ctx, command(1, "GET", c.Words[1])).Text != value {
				return Reply{}, true
			}
			return conn.Do(ctx, command(1, "DEL", c.Words[1])), true
		}
	}
}
