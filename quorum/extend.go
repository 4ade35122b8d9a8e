package quorum

import (
	"context"
	"slices"

	"github.com/holdfastlock/holdfast/driver"
)

// extended are a node's answers to a call.
type extended struct {
	node    int
	results []driver.ExtendResult
}

func (e extended) from() (int, bool) { return e.node, false }

// Extend implements driver.Store: one call to each node, whatever the number of
// leases. A lease is extended if a majority has extended it.
func (s *Store) Extend(ctx context.Context, reqs []driver.ExtendRequest) []driver.ExtendResult {
	results := make([]driver.ExtendResult, len(reqs))
	if len(reqs) == 0 {
		return results
	}
	counts := make([]count, len(reqs))
	if err := s.extend(ctx, slices.Clone(reqs), counts); err != nil {
		for i := range results {
			results[i].Err = err
		}
		return results
	}
	for i := range counts {
		results[i] = counts[i].extended()
	}
	return results
}

// extend asks all nodes, and counts until each of the leases is decided. It keeps
// the requests.
func (s *Store) extend(ctx context.Context, reqs []driver.ExtendRequest, counts []count) error {
	if ctx.Err() != nil {
		return driver.NoAnswer(ctx, ctx.Err())
	}
	if err := s.open(); err != nil {
		return err
	}
	s.prolong(reqs)
	replies := make(chan extended, len(s.nodes))
	shortest := slices.MinFunc(reqs, func(a, b driver.ExtendRequest) int { return int(a.TTL - b.TTL) }).TTL
	r := s.begin(taskFunc(func(i int) {
		defer s.running.Done()
		replies <- extended{i, s.nodes[i].Extend(s.limits.context(s.limit(shortest)), reqs)}
	}), s.all(), 0)
	for i := range counts {
		counts[i] = count{majority: s.majority, nodes: len(s.nodes)}
	}
	return collect(ctx, r, replies, func(r extended) bool {
		decided := true
		for i, result := range r.results {
			this := counts[i].add(found{node: r.node, answer: result.Answer, why: result.Why, err: result.Err})
			decided = decided && this
		}
		return decided
	})
}
