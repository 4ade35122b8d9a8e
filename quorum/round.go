package quorum

import (
	"context"
	"time"

	"github.com/holdfastlock/holdfast/driver"
)

// A lease without a fencing token is asked for at a majority of the nodes first,
// and freed where it was asked for, which saves two of five requests. The others are
// asked as soon as one of the first fails, refuses or is slow, and a little later
// if the lease is still held, so that it bears the loss of a node from then on.
//
// alone is how long it is held at the first nodes only; a tenth of the TTL where
// that is less.
const alone = 50 * time.Millisecond

// round is a call's requests, one to a node: to some nodes first, and to the rest
// if those do not decide.
type round struct {
	store *Store
	task  task
	asked nodeSet
	rest  nodeSet
	heard nodeSet
}

// begin asks the first nodes. The caller has called open or enter.
func (s *Store) begin(t task, first, rest nodeSet) *round {
	s.start(t, first)
	return &round{store: s, task: t, asked: first, rest: rest}
}

// widen asks the rest.
func (r *round) widen() {
	r.store.start(r.task, r.rest)
	r.asked, r.rest = r.asked|r.rest, 0
}

// answer is a node's answer, or that it failed.
type answer interface {
	from() (node int, failed bool)
}

// collect takes in the nodes' answers until they are enough, or all.
func collect[T answer](ctx context.Context, r *round, answers <-chan T, enough func(T) bool) error {
	var slow <-chan time.Time
	if r.rest != 0 {
		timer := time.NewTimer(r.store.pace.prompt())
		defer timer.Stop()
		slow = timer.C
	}
	for r.heard != r.asked|r.rest {
		select {
		case a := <-answers:
			node, failed := a.from()
			r.heard = r.heard.with(node)
			if enough(a) {
				return nil
			}
			if failed || r.heard == r.asked {
				r.widen()
			}
		case <-slow:
			r.store.slow.missed(r.asked &^ r.heard)
			r.widen()
		case <-ctx.Done():
			return driver.NoAnswer(ctx, ctx.Err())
		}
	}
	return nil
}

// all returns the nodes.
func (s *Store) all() nodeSet { return nodeSet(1)<<len(s.nodes) - 1 }

// firstFor returns the nodes that are asked first for a name: a majority, the same
// in all processes that list the nodes alike, so that those who compete meet at
// once. They are all nodes while one of them is not prompt, or not known to be: it
// is not waited for.
func (s *Store) firstFor(name string) nodeSet {
	if s.slow.nodes() != 0 {
		return s.all()
	}
	first := nodeSet(1)<<s.majority - 1
	by := int(hash(name) % uint32(len(s.nodes)))
	return (first<<by | first>>(len(s.nodes)-by)) & s.all()
}

// fillLater asks the other nodes for what a vote has won, a little later.
func (s *Store) fillLater(v *vote, others nodeSet) {
	t := v.tenure
	t.mu.Lock()
	defer t.mu.Unlock()
	if others != 0 && t.held {
		t.fills = time.AfterFunc(min(alone, v.req.TTL/timeoutShare), func() { s.fill(v, others) })
	}
}

func (s *Store) fill(v *vote, others nodeSet) {
	t, err := s.enter(v.tenure.key, 0)
	if err != nil {
		return // closed
	}
	if t != v.tenure { // it is over
		others = 0
	}
	s.start(v, others)
	s.left(t, len(s.nodes)-others.count())
}

// hash is FNV-1a, which gives each of the nodes its share of the names.
func hash(name string) uint32 {
	sum := uint32(2166136261)
	for i := range len(name) {
		sum = (sum ^ uint32(name[i])) * 16777619
	}
	return sum
}
