package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/holdfastlock/holdfast/driver"
)

// Where a server lets nobody run scripts, each step is a transaction that comes
// to nothing if its keys were changed meanwhile (transaction.go), or a native
// command that compares. Scripts are tried first. The data is the same, so that
// clients with and without scripts exclude each other and share the fences.

// plain is what is known of servers that forbid much.
type plain struct {
	scripts, transactions memo
	natives               [len(natives)]memo
	layout                atomic.Pointer[layout] // of the cluster, when something was noted last
	warned                sync.Once
}

var (
	errNoScripts      = errors.New("the server does not let us run scripts")
	errNoTransactions = errors.New("the server does not let us use transactions")
)

// forbids says that a server's error is about one of these commands as such: it
// does not know them, or the ACL user may not run them. What it says of a key, or
// of a command within a script, is something else.
func forbids(err error, commands ...string) bool {
	text, yes := said(err)
	if !yes {
		return false
	}
	text = strings.TrimPrefix(strings.ToLower(text), "err ") // some clients leave it out
	text = strings.TrimPrefix(text, "execabort transaction discarded because of: ")
	denied := strings.HasPrefix(text, "noperm ")
	text = strings.TrimSuffix(text, " or its subcommand") // Redis 6.2
	return slices.ContainsFunc(commands, func(name string) bool {
		return strings.HasPrefix(text, "unknown command '"+name+"'") || strings.HasPrefix(text, "unknown command `"+name+"`") ||
			denied && strings.HasSuffix(text, " run the '"+name+"' command")
	})
}

// scripted marks the answer to a script if it is that there are none.
func scripted(reply Reply) Reply {
	if reply.Err != nil && forbids(reply.Err, "evalsha", "eval") {
		reply.Err = &driver.Error{
			Kind: driver.ErrRefused, Err: fmt.Errorf("%w: %w", errNoScripts, reply.Err), Hint: "needs +evalsha and +eval",
		}
	}
	return reply
}

// either runs scripts, which asks a server by a script, or plain where it lets
// us run none: that which has the key.
func either[T any](ctx context.Context, s *Store, key string, scripts, plain func() (T, error)) (T, error) {
	if !s.lacks(&s.plain.scripts, key) {
		value, err := scripts()
		if !errors.Is(err, errNoScripts) {
			return value, err
		}
		text, _ := said(err)
		if other := s.connection.mistaken(context.Background(), text); other != nil {
			return value, other
		}
		s.scriptless(ctx, key)
	}
	return plain()
}

// scriptless remembers that there are no scripts where the key is.
func (s *Store) scriptless(ctx context.Context, key string) {
	s.note(ctx, &s.plain.scripts, key)
	s.warnOnce(&s.plain.warned, "Redis does not let us run scripts (+evalsha +eval): an acquire takes two round trips "+
		"instead of one, and who waits has no place in a queue and polls")
}

func (s *Store) warnOnce(once *sync.Once, text string) {
	if s.warn != nil {
		once.Do(func() { s.warn(text) })
	}
}

// transactionless makes a server's error of what needs a transaction, if it is
// that there are none where the key is, and remembers that.
func (s *Store) transactionless(ctx context.Context, key string, err error) error {
	if !errors.Is(err, errNoTransactions) {
		return err
	}
	s.note(ctx, &s.plain.transactions, key)
	return noTransactions(err)
}

func noTransactions(err error) error {
	return &driver.Error{
		Kind: driver.ErrRefused, Err: err,
		Hint: "a fence needs scripts (+evalsha +eval) or transactions (+watch +multi +exec); " +
			"a lock without one can also be released by +delifeq or +delex",
	}
}

// apart runs a step on a connection of its own, as a transaction needs it. The
// step is told of the caller too, who may have gone meanwhile.
func apart[T any](caller context.Context, s *Store, key string, step func(context.Context, transaction) (T, error)) (T, error) {
	if s.lacks(&s.plain.transactions, key) {
		var none T
		return none, noTransactions(errNoTransactions)
	}
	return askApart(caller, s.connection, func(ctx context.Context, conn Conn) (T, error) {
		type result struct {
			value T
			err   error
		}
		results := make(chan result, 1)
		// A client may tidy the connection up when the step is done, by one more
		// round trip: the caller does not wait for that.
		started := s.connection.start(func() {
			err := conn.Apart(s.connection.life, key, func(alone Conn) error {
				value, err := step(ctx, transaction{conn: alone, caller: caller})
				if text, _ := said(err); strings.HasPrefix(text, "MOVED ") {
					return err // it may be run again, on the server that has the key
				}
				results <- result{value, err}
				return nil
			})
			if err != nil { // there was no connection, or not to the right server
				results <- result{err: err}
			}
		})
		if !started {
			var none T
			return none, errClosed
		}
		r := <-results
		return r.value, s.transactionless(ctx, key, r.err)
	})
}
