package redisstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfastlock/holdfast/driver"
)

// tries is how often a step is tried whose keys others change meanwhile.
const tries = 8

// errMeanwhile is why a step is tried again.
var errMeanwhile = errors.New("what was read changed meanwhile")

// transaction is a connection on which nothing else is sent.
type transaction struct {
	conn   Conn
	caller context.Context // who waits for it; the requests do not end with it
}

// decision is what a step wants to write after it has read; nothing if it has
// its answer already. It is errMeanwhile if what was read does not fit together.
type decision func(read []Reply) (writes []Command, err error)

// run reads, decides and writes, in two round trips, and returns the answers to
// the writes. Nothing is written if one of the keys was changed since, or has
// expired; it is then tried again, a few times.
func (t transaction) run(ctx context.Context, keys []string, reads []Command, decide decision) (written []Reply, err error) {
	for range tries {
		if err := t.caller.Err(); err != nil {
			return nil, err
		}
		if written, err = t.once(ctx, keys, reads, decide); !errors.Is(err, errMeanwhile) {
			return written, err
		}
	}
	return nil, &driver.Error{Kind: driver.ErrUnreachable, Err: fmt.Errorf("tried %d times: %w", tries, err)}
}

func (t transaction) once(ctx context.Context, keys []string, reads []Command, decide decision) ([]Reply, error) {
	// An empty transaction shows that there are any: else what follows MULTI
	// would be carried out at once. It also ends an earlier WATCH.
	begin := []Command{command(0, "MULTI"), command(0, "EXEC"), command(1, append([]string{"WATCH"}, keys...)...)}
	replies := t.conn.DoMany(ctx, append(begin, reads...))
	for i, name := range []string{"multi", "exec", "watch"} {
		err := replies[i].Err
		if forbids(err, name) {
			t.conn.Do(ctx, command(0, "DISCARD")) // what MULTI has begun, if that is all there is
			return nil, fmt.Errorf("%w: %w", errNoTransactions, err)
		}
		if err != nil {
			return nil, err
		}
	}
	writes, err := decide(replies[len(begin):])
	if err != nil || len(writes) == 0 {
		return nil, err
	}
	if err := t.caller.Err(); err != nil {
		return nil, err
	}
	return t.write(ctx, writes)
}

func (t transaction) write(ctx context.Context, writes []Command) ([]Reply, error) {
	commands := append([]Command{command(0, "MULTI")}, writes...)
	replies := t.conn.DoMany(ctx, append(commands, command(0, "EXEC")))
	last := len(replies) - 1
	if err := firstError(replies[:last]); err != nil {
		return nil, err
	}
	if replies[last].Null {
		return nil, errMeanwhile
	}
	written, err := replies[last].list(len(writes))
	if err == nil {
		err = firstError(written)
	}
	return written, err
}

func firstError(replies []Reply) error {
	for _, reply := range replies {
		if reply.Err != nil {
			return reply.Err
		}
	}
	return nil
}
