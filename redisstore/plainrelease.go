package redisstore

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfastlock/holdfast/driver"
)

// natives are the commands that delete a key if it has a value: Valkey from 9.0,
// and Redis from 8.4 and Valkey from 9.2.
var natives = [...]struct {
	name  string
	words func(key, value string) []string
}{
	{"delifeq", func(key, value string) []string { return []string{"DELIFEQ", key, value} }},
	{"delex", func(key, value string) []string { return []string{"DELEX", key, "IFEQ", value} }},
}

// releasePlain is Release without scripts: a native command in one round trip,
// else a transaction in two.
func (s *Store) releasePlain(ctx context.Context, k keys, req driver.ReleaseRequest) (answer driver.Answer, err error) {
	if req.Tombstone == 0 {
		var found bool
		if answer, found, err = s.releaseNatively(ctx, k, req.Token); found {
			return answer, err
		}
	}
	answer, err = apart(ctx, s, k.lock, func(ctx context.Context, t transaction) (driver.Answer, error) {
		return t.release(ctx, k, req)
	})
	// A name must come free also when memory is full, and who can't leave a
	// tombstone has not acquired by what looks at them.
	if req.Tombstone > 0 && (full(err) || errors.Is(err, errNoTransactions)) {
		req.Tombstone = 0
		return s.releasePlain(ctx, k, req)
	}
	return answer, err
}

// full says that the server has refused to write because its memory is full.
func full(err error) bool {
	var known *driver.Error
	return errors.As(err, &known) && known.Err != nil && faultOf(known.Err.Error()) == faults["OOM"]
}

// releaseNatively says whether the server has a command for it.
func (s *Store) releaseNatively(ctx context.Context, k keys, token string) (answer driver.Answer, found bool, err error) {
	for i, native := range natives {
		memory := &s.plain.natives[i]
		if s.lacks(memory, k.lock) {
			continue
		}
		answer, err = ask(ctx, s.connection, func(ctx context.Context, conn Conn) (driver.Answer, error) {
			replies := conn.DoMany(ctx, []Command{
				command(1, native.words(k.lock, token)...), command(1, "GET", k.lock), waitersOf(k),
			})
			if forbids(replies[0].Err, native.name) {
				return 0, nil
			}
			answer, err := released(replies)
			if answer == driver.Mine {
				hint(ctx, conn, k, replies[2])
			}
			return answer, err
		})
		if answer != 0 || err != nil {
			return answer, true, err
		}
		s.note(ctx, memory, k.lock)
	}
	return 0, false, nil
}

// released reads how many keys were deleted, and what the lock is after that.
func released(replies []Reply) (driver.Answer, error) {
	deleted, err := replies[0].number()
	switch {
	case err != nil:
		return 0, err
	case deleted > 0:
		return driver.Mine, nil
	case replies[1].Err != nil:
		return 0, replies[1].Err
	case replies[1].Null:
		return driver.Gone, nil
	default:
		return driver.Taken, nil
	}
}

// waitersOf asks for the first in the queue: clients that have scripts wait there,
// and are not told by what deletes the lock.
func waitersOf(k keys) Command { return command(1, "ZRANGE", k.queue(), "0", "9") }

// hint tells the first of the waiters who listens to look at the name. That it
// can't be done is no failure: a waiter has a timer, too.
func hint(ctx context.Context, conn Conn, k keys, waiters Reply) {
	for _, waiter := range waiters.List {
		channel, _, _ := strings.Cut(waiter.Text, "\n")
		publish := command(0, "PUBLISH", channel, k.lock+"\n")
		if strings.HasPrefix(channel, k.queue()) {
			publish = command(1, "SPUBLISH", channel, k.lock+"\n")
		}
		if heard := conn.Do(ctx, publish); heard.Err != nil || heard.Int > 0 {
			return
		}
	}
}

// release is the script release, but that the name comes free instead of being
// handed on.
func (t transaction) release(ctx context.Context, k keys, req driver.ReleaseRequest) (answer driver.Answer, err error) {
	var waiters Reply
	if req.Tombstone > 0 {
		answer, waiters, err = t.withdraw(ctx, k, req)
	} else {
		_, err = t.run(ctx, []string{k.lock}, []Command{command(1, "GET", k.lock), waitersOf(k)}, func(read []Reply) (writes []Command, err error) {
			waiters = read[1]
			answer, writes, err = freeing(k, req.Token, read[0])
			return writes, err
		})
	}
	if err == nil && answer == driver.Mine {
		hint(ctx, t.conn, k, waiters)
	}
	return answer, err
}

// freeing compares the token.
func freeing(k keys, token string, lock Reply) (driver.Answer, []Command, error) {
	switch {
	case lock.Err != nil:
		return 0, nil, lock.Err
	case lock.Null:
		return driver.Gone, nil, nil
	case lock.Text != token:
		return driver.Taken, nil, nil
	default:
		return driver.Mine, []Command{command(1, "DEL", k.lock)}, nil
	}
}

// withdraw is a release with a tombstone.
func (t transaction) withdraw(ctx context.Context, k keys, req driver.ReleaseRequest) (answer driver.Answer, waiters Reply, err error) {
	var now time.Duration
	var fields int64
	_, err = t.run(ctx, []string{k.lock, k.companion()}, []Command{
		command(1, "GET", k.lock), command(0, "TIME"), command(1, "PTTL", k.companion()), command(1, "HLEN", k.companion()), waitersOf(k),
	}, func(read []Reply) (writes []Command, err error) {
		if err := firstError(read[:4]); err != nil {
			return nil, err
		}
		if answer, writes, err = freeing(k, req.Token, read[0]); err != nil {
			return nil, err
		}
		fields, waiters = read[3].Int+1, read[4]
		now, err = serverTime(read[1])
		return append(writes, bury(k, req, now, read[2].Int)...), err
	})
	if err == nil && fields%sweepEvery == 0 {
		t.sweep(ctx, k, now)
	}
	return answer, waiters, err
}

// bury leaves a tombstone, as the script release does: it says until when, in ms
// since 1970, it is needed. Left is how long the companion lasts.
func bury(k keys, req driver.ReleaseRequest, now time.Duration, left int64) []Command {
	until := (now + req.Tombstone).Milliseconds()
	writes := []Command{command(1, "HSET", k.companion(), tombstoneOf(req.Token), decimal(until))}
	if time.Duration(left)*time.Millisecond < req.Tombstone {
		writes = append(writes, command(1, "PEXPIRE", k.companion(), milliseconds(req.Tombstone)))
	}
	return writes
}

// sweepEvery is at which numbers of fields a companion is looked through for
// tombstones that are over.
const sweepEvery = 64

// sweep removes them; what it misses the next one finds.
func (t transaction) sweep(ctx context.Context, k keys, now time.Duration) {
	page, err := t.conn.Do(ctx, command(1, "HSCAN", k.companion(), "0", "MATCH", tombstoneOf("*"), "COUNT", decimal(scanCount))).list(2)
	if err != nil {
		return
	}
	fields, _ := page[1].texts()
	over := []string{"HDEL", k.companion()}
	for pair := range slices.Chunk(fields, 2) {
		if until, err := strconv.ParseInt(pair[len(pair)-1], 10, 64); err == nil && until < now.Milliseconds() {
			over = append(over, pair[0])
		}
	}
	if len(over) > 2 {
		t.conn.Do(ctx, command(1, over...))
	}
}
