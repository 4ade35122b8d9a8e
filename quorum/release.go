package quorum

import (
	"context"

	"github.com/holdfastlock/holdfast/driver"
)

// Release implements driver.Store: it frees the name at all nodes, or where this
// process has asked for it, and answers what a majority has found. A node that does
// not answer is asked again in the background, until the lease would have ended
// there by itself.
func (s *Store) Release(ctx context.Context, req driver.ReleaseRequest) (driver.Answer, error) {
	if err := driver.CheckName(req.Name); err != nil {
		return 0, err
	}
	if ctx.Err() != nil {
		return 0, driver.NoAnswer(ctx, ctx.Err())
	}
	t, err := s.enter(key{req.Name, req.Token}, req.Tombstone)
	if err != nil {
		return 0, err
	}
	at, freed := t.release(s.all())
	others := len(s.nodes) - at.count() // which do not have it
	defer s.left(t, others)
	s.leave(t, at)
	replies := make(chan found, len(s.nodes))
	r := s.begin(taskFunc(func(i int) { s.releaseAt(t, i, req, replies) }), at, 0)
	c := count{majority: s.majority, nodes: len(s.nodes), gone: others}
	err = collect(ctx, r, replies, func(r found) bool {
		if r.answer == driver.Mine {
			freed = freed.with(r.node)
		} else if freed.has(r.node) { // by an earlier call, which had no answer
			r.answer, r.err = driver.Mine, nil
		}
		return c.add(r)
	})
	var answer driver.Answer
	if err == nil {
		answer, err = c.released()
	}
	if err != nil {
		t.remember(freed)
		return 0, err
	}
	s.lose(t)
	return answer, nil
}

// releaseAt frees one node. An acquire that it has not answered must find a
// tombstone if it arrives late.
func (s *Store) releaseAt(t *tenure, i int, req driver.ReleaseRequest, replies chan<- found) {
	defer s.left(t, 1)
	p := &t.parts[i]
	p.mu.Lock()
	tombstone := req.Tombstone
	if p.unheard {
		tombstone = max(tombstone, linger)
	}
	answer, err := s.free(t, i, tombstone, s.limit(0))
	p.number = 0
	p.freeing.Store(false)
	p.freed.Broadcast()
	unsettled := p.leftover()
	p.mu.Unlock()
	replies <- found{node: i, answer: answer, err: err}
	if unsettled {
		s.settle(t, i)
	}
}
