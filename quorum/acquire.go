package quorum

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/holdfastlock/holdfast/driver"
)

// How a split vote is ended: those who share the nodes without a majority free
// them and ask again, each after a pause of its own, which is at most firstPause
// and doubles.
const (
	firstPause = 2 * time.Millisecond
	// whenSplit is how often a vote is repeated that nobody can have won.
	whenSplit = 7
	// whenUnsure is the same where another may have, with nodes that do not answer,
	// or may have freed some of the nodes just now.
	whenUnsure = 1
)

// Acquire implements driver.Store. With a fencing token it takes one round trip to
// all nodes at once; it then waits for the minority as long again as it has waited
// for the majority, and where they don't answer in time a second round trip is
// needed. Without one it takes one round trip to a majority, if they are well and
// the name is free, and the others get the lease a moment later, if it is still
// held.
//
// What a failed call has left at nodes is freed, also where the answer comes
// later. A token that holds the name already is granted the same fence again;
// by another process a larger one may be, after nodes have failed.
func (s *Store) Acquire(ctx context.Context, req driver.AcquireRequest) (driver.AcquireResult, error) {
	if err := s.checkAcquire(ctx, req); err != nil {
		return driver.AcquireResult{}, err
	}
	for try := 0; ; try++ {
		result, repeats, err := s.try(ctx, req)
		if try >= repeats {
			return result, err
		}
		timer := time.NewTimer(rand.N(firstPause << try))
		select {
		case <-timer.C:
		case <-s.closing:
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return driver.AcquireResult{}, driver.NoAnswer(ctx, ctx.Err())
		}
	}
}

func (s *Store) checkAcquire(ctx context.Context, req driver.AcquireRequest) error {
	if err := driver.CheckName(req.Name); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return driver.NoAnswer(ctx, ctx.Err())
	}
	if req.Mode != driver.Exclusive {
		return &driver.Error{Kind: driver.ErrUnsupported, Hint: "a quorum has no shared locks"}
	}
	if req.NoFence {
		return nil
	}
	for _, node := range s.nodes {
		if _, can := node.(driver.FenceRaiser); !can {
			return &driver.Error{Kind: driver.ErrUnsupported, Hint: "a node can't agree on a fencing token; acquire without one"}
		}
	}
	return nil
}

// trusted returns how long after its first request a grant of ttl may be
// believed: what the locker believes too.
func trusted(ttl time.Duration) time.Duration {
	return ttl - ttl/100 - max(10*time.Millisecond, ttl/100)
}

// try votes once, and says how often the vote is to be repeated.
func (s *Store) try(ctx context.Context, req driver.AcquireRequest) (result driver.AcquireResult, repeats int, err error) {
	t, err := s.enter(key{req.Name, req.Token}, req.TTL)
	if err != nil {
		return driver.AcquireResult{}, 0, err
	}
	v := newVote(s, t, req)
	r := v.begin()
	defer func() { s.left(t, r.rest.count()) }()
	var won grant
	if err = v.elect(ctx, r); err == nil && v.tally.won() {
		if won, err = v.number(ctx); err == nil {
			t.hold(won)
			v.end(true)
			s.fillLater(v, r.rest)
			return driver.AcquireResult{Granted: true, Fence: first(req, won.last)}, 0, nil
		}
	}
	s.lose(t)
	v.end(false)
	if err != nil {
		return driver.AcquireResult{}, 0, err
	}
	result, repeats = v.refusal()
	return result, repeats, nil
}

// first returns the first of the fencing tokens of which last is the last, 0 of
// none.
func first(req driver.AcquireRequest, last int64) int64 {
	if last == 0 {
		return 0
	}
	return req.First(last)
}
