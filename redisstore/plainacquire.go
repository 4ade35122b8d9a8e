package redisstore

import (
	"context"
	"errors"
	"time"

	"github.com/holdfastlock/holdfast/driver"
)

// spare is how much longer than needed a companion stays, so that not every
// grant has to set its time; the script grant has the same.
const spare = 6 * time.Hour

// acquirePlain is Acquire without scripts, in two round trips: it decides what the
// script acquire does.
func (s *Store) acquirePlain(ctx context.Context, k keys, req driver.AcquireRequest) (driver.QueueResult, error) {
	return s.guarded(ctx, req, func() (driver.QueueResult, error) {
		return apart(ctx, s, k.lock, func(ctx context.Context, t transaction) (result driver.QueueResult, err error) {
			result.AcquireResult, err = t.acquire(ctx, k, req)
			if err == nil && result.Granted && s.durability.wanted() {
				err = s.settle(ctx, t.conn, req, &result)
			}
			return result, err
		})
	})
}

// acquiring is an acquire that has read.
type acquiring struct {
	keys   keys
	req    driver.AcquireRequest
	now    time.Duration // since 1970, by the server's clock
	left   int64         // of the lock, in ms
	known  companion
	stays  int64 // until when the companion does, in µs since 1970
	result driver.AcquireResult
}

func (t transaction) acquire(ctx context.Context, k keys, req driver.AcquireRequest) (driver.AcquireResult, error) {
	a := acquiring{keys: k, req: req}
	written, err := t.run(ctx, []string{k.lock, k.companion()}, []Command{
		command(1, "GET", k.lock),
		command(1, "PTTL", k.lock),
		command(1, "HMGET", k.companion(), "token", "fence", "purpose", "stays", tombstoneOf(req.Token)),
		command(0, "TIME"),
	}, a.decide)
	if err != nil {
		return driver.AcquireResult{}, err
	}
	if len(written) > 0 && written[len(written)-1].Null { // SET NX, behind a WATCH
		return driver.AcquireResult{}, errors.New("SET NX was refused in a transaction")
	}
	return a.result, nil
}

// tombstoneOf is the field of the companion that refuses a token.
func tombstoneOf(token string) string { return "x:" + token }

// decide is the script acquire. SET comes last: if a write is refused after all
// the name must not stay locked.
func (a *acquiring) decide(read []Reply) (writes []Command, err error) {
	a.result = driver.AcquireResult{} // of the try before
	if err := a.read(read); err != nil {
		return nil, err
	}
	lock, ttl := a.keys.lock, milliseconds(a.req.TTL)
	free, mine := read[0].Null, read[0].Text == a.req.Token
	switch {
	case !free && a.left == noKey:
		return nil, errMeanwhile
	case !read[2].List[4].Null:
		return nil, driver.ErrWithdrawn
	case !free && !mine:
		a.result.State, err = stateOf(a.req.Name, read)
		return nil, err
	}
	a.result.Granted = true
	if mine && a.known.token == a.req.Token {
		a.result.Fence = a.req.First(a.known.fence)
	} else if !a.req.NoFence {
		writes = a.number()
	}
	if a.req.NoFence {
		a.result.Fence = 0
	}
	if free {
		writes = append(writes, command(1, "SET", lock, a.req.Token, "NX", "PX", ttl))
	} else if time.Duration(a.left)*time.Millisecond < a.req.TTL {
		writes = append(writes, command(1, "PEXPIRE", lock, ttl))
	}
	return writes, nil
}

// noKey is what PTTL says of a key that is not there.
const noKey = -2

func (a *acquiring) read(read []Reply) (err error) {
	if err = firstError(read); err != nil {
		return err
	}
	if a.left, err = read[1].number(); err != nil {
		return err
	}
	if a.known, err = companionOf(read[2]); err != nil {
		return err
	}
	fields, err := read[2].list(5)
	if err != nil {
		return err
	}
	a.stays, _ = fields[3].number()
	a.now, err = serverTime(read[3])
	return err
}

// number gives the grant its fencing tokens, as the function of that name in the
// script grant does.
func (a *acquiring) number() []Command {
	fence := max(a.known.fence+1, a.now.Microseconds())
	a.result.Fence = fence
	companion := a.keys.companion()
	words := []string{"HSET", companion, "token", a.req.Token, "fence", decimal(a.req.Last(fence))}
	if a.req.Purpose != a.known.purpose {
		words = append(words, "purpose", a.req.Purpose)
	}
	needed := fence + companionTTL(a.req.TTL).Microseconds()
	if a.stays >= needed {
		return []Command{command(1, words...)}
	}
	stays := needed + spare.Microseconds()
	words = append(words, "stays", decimal(stays))
	left := time.Duration(stays-a.now.Microseconds()) * time.Microsecond
	return []Command{command(1, words...), command(1, "PEXPIRE", companion, milliseconds(left))}
}
