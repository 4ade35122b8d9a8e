package redisstore

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/holdfastlock/holdfast/driver"
)

// milliseconds rounds up, never to 0: the server must not let another in before
// the holder has stopped.
func milliseconds(d time.Duration) string {
	return strconv.FormatInt(max(1, int64((d+time.Millisecond-1)/time.Millisecond)), 10)
}

// Acquire implements driver.Store: one script, one round trip.
//
// With NoFence it is the bare SET NX PX, one plain command, and one more to
// learn who holds a name that was refused. That command knows nothing of
// tombstones: a withdrawn acquire that arrives late locks the name for its TTL.
// Where a grant waits for replicas it is the script all the same.
func (s *Store) Acquire(ctx context.Context, req driver.AcquireRequest) (driver.AcquireResult, error) {
	if req.Mode != driver.Exclusive {
		return driver.AcquireResult{}, unsupported("redisstore has no shared locks")
	}
	k, err := keysOf(s.prefix, req.Name)
	if err != nil {
		return driver.AcquireResult{}, err
	}
	if req.NoFence && !s.durability.wanted() {
		result, err := s.guarded(ctx, req, func() (result driver.QueueResult, err error) {
			result.AcquireResult, err = s.acquireBare(ctx, k, req)
			return result, err
		})
		return result.AcquireResult, err
	}
	r := run{
		keys: []string{k.lock, k.companion()},
		args: []string{req.Token, milliseconds(req.TTL), fences(req), req.Purpose},
	}
	result, err := either(ctx, s, k.lock, func() (driver.QueueResult, error) {
		return s.grant(ctx, req, func(ctx context.Context, conn Conn) (driver.QueueResult, error) {
			result, err := acquireAnswer(req, call(ctx, conn, acquireScript, r))
			return driver.QueueResult{AcquireResult: result}, err
		})
	}, func() (driver.QueueResult, error) { return s.acquirePlain(ctx, k, req) })
	return result.AcquireResult, err
}

// fences is how the scripts are told how many fencing tokens to reserve.
func fences(req driver.AcquireRequest) string {
	if req.NoFence {
		return ""
	}
	return decimal(req.Last(0))
}

// granted returns the result of a grant whose last fencing token is that.
func granted(req driver.AcquireRequest, last Reply) (driver.AcquireResult, error) {
	if req.NoFence {
		return driver.AcquireResult{Granted: true}, nil
	}
	fence, err := last.number()
	return driver.AcquireResult{Granted: err == nil, Fence: req.First(fence)}, err
}

// acquireAnswer reads the answer of the script acquire.
func acquireAnswer(req driver.AcquireRequest, reply Reply) (driver.AcquireResult, error) {
	if reply.Text != "" {
		return granted(req, reply)
	}
	parts, err := reply.list(1)
	if err != nil {
		return driver.AcquireResult{}, err
	}
	return acquireResult(req, parts)
}

func acquireResult(req driver.AcquireRequest, reply []Reply) (driver.AcquireResult, error) {
	switch reply[0].Text {
	case "granted":
		return granted(req, reply[1])
	case "held", "queued":
		state, err := stateOf(req.Name, reply[1:min(5, len(reply))])
		return driver.AcquireResult{State: state}, err
	default:
		return driver.AcquireResult{}, driver.ErrWithdrawn
	}
}

// acquireBare repeats once if the name came free between its two commands.
func (s *Store) acquireBare(ctx context.Context, k keys, req driver.AcquireRequest) (driver.AcquireResult, error) {
	var state driver.State
	for range 2 {
		granted, err := s.setNX(ctx, k.lock, req)
		if err != nil || granted {
			return driver.AcquireResult{Granted: granted}, err
		}
		if state, err = s.Inspect(ctx, req.Name); err != nil {
			return driver.AcquireResult{}, err
		}
		if len(state.Holders) > 0 {
			break
		}
	}
	if len(state.Holders) == 0 || state.Holders[0].Token != req.Token {
		return driver.AcquireResult{State: state}, nil
	}
	again := s.Extend(ctx, []driver.ExtendRequest{{Name: req.Name, Token: req.Token, TTL: req.TTL}})[0]
	if again.Err != nil || again.Answer == driver.Mine {
		return driver.AcquireResult{Granted: again.Err == nil}, again.Err
	}
	return driver.AcquireResult{State: driver.State{Name: req.Name, Fence: state.Fence}}, nil
}

func (s *Store) setNX(ctx context.Context, lock string, req driver.AcquireRequest) (bool, error) {
	return ask(ctx, s.connection, func(ctx context.Context, conn Conn) (bool, error) {
		reply := conn.Do(ctx, command(1, "SET", lock, req.Token, "NX", "PX", milliseconds(req.TTL)))
		return reply.Err == nil && !reply.Null, reply.Err
	})
}

// Release implements driver.Store: one script, one round trip, which also hands
// the name on. A tombstone that is refused because memory is full does not make
// the release fail.
func (s *Store) Release(ctx context.Context, req driver.ReleaseRequest) (driver.Answer, error) {
	k, err := keysOf(s.prefix, req.Name)
	if err != nil {
		return 0, err
	}
	return either(ctx, s, k.lock, func() (driver.Answer, error) { return s.releaseByScript(ctx, k, req) },
		func() (driver.Answer, error) { return s.releasePlain(ctx, k, req) })
}

func (s *Store) releaseByScript(ctx context.Context, k keys, req driver.ReleaseRequest) (driver.Answer, error) {
	return ask(ctx, s.connection, func(ctx context.Context, conn Conn) (driver.Answer, error) {
		inbox := req.Inbox
		if inbox != "" && conn.Cluster() {
			inbox = shardOf(k, inbox)
		}
		r := run{
			keys: []string{k.lock, k.companion(), k.queue()},
			args: []string{req.Token, claimTTL},
		}
		switch {
		case req.Tombstone > 0:
			r.args = append(r.args, inbox, milliseconds(req.Tombstone))
		case inbox != "":
			r.args = append(r.args, inbox)
		}
		return answerOf(call(ctx, conn, releaseScript, r))
	})
}

// claimTTL is driver.Claim as the scripts are told it.
var claimTTL = milliseconds(driver.Claim)

// answers are the scripts' words.
var answers = map[string]driver.Answer{"mine": driver.Mine, "gone": driver.Gone, "taken": driver.Taken}

func answerOf(reply Reply) (driver.Answer, error) {
	answer, known := answers[reply.Text]
	if !known && reply.Err == nil {
		return 0, fmt.Errorf("unexpected answer %q", reply.Text)
	}
	return answer, reply.Err
}

// Inspect implements driver.Store.
func (s *Store) Inspect(ctx context.Context, name string) (driver.State, error) {
	k, err := keysOf(s.prefix, name)
	if err != nil {
		return driver.State{}, err
	}
	return either(ctx, s, k.lock, func() (driver.State, error) {
		return ask(ctx, s.connection, func(ctx context.Context, conn Conn) (driver.State, error) {
			reply, err := call(ctx, conn, inspectScript, run{keys: []string{k.lock, k.companion()}}).list(4)
			if err != nil {
				return driver.State{}, err
			}
			return stateOf(name, reply)
		})
	}, func() (driver.State, error) { return s.inspectPlain(ctx, name, k) })
}
