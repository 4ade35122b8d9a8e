// Package quorum makes one store of N that know nothing of each other: a lock is
// held by whoever holds it at a majority of them. This is the algorithm known as
// Redlock, with a fencing token that the majority agrees on.
//
// It is for those who can't give their locks to one server, and want no server
// that replicates to another: with three nodes one may be down, slow or
// restarted, with five nodes two.
//
// Promised, if what is assumed is true: no two holders at the same time, and
// fencing tokens that grow from grant to grant.
//
// Assumed:
//
//   - The clocks of the nodes and of the holders run at the same speed within 1 %,
//     and nobody sets one forward while a lock is held: a node then frees its keys
//     too early, and a majority of such nodes lets a second holder in.
//   - The clocks of the nodes show the same time within the longest TTL. A node
//     that has lost its data starts from its clock: where another's was further
//     ahead than that, a fencing token may be smaller than one before.
//   - The nodes are independent: none is a replica of another or fails over to
//     one that lags, and no fault takes the data of a majority at once.
//   - A node that restarts without its last writes takes no part until it has been
//     up for the longest TTL; see redisstore.Options.AbstainAfterRestart. A node
//     that loses its data in another way (FLUSHALL, eviction, a restored backup)
//     can't know of it: if it was needed for the majority, a second holder is let
//     in. Its fences go on from its clock; they are larger than before unless that
//     is behind the last one granted.
//   - The holder stops when its lease ends, which it can't if it is paused: as with
//     every lease. Where two holders would do harm the resource must check the
//     fence, and then one server with that check does as well.
//
// One Redis that writes each grant to its disk, or Postgres, is better wherever
// a restart's length without locks can be borne: it costs one server and one
// round trip, keeps a queue of waiters, promises the same in fewer words, and
// Postgres can guard the data itself. See docs/guarantees.md.
//
// How the fencing token is agreed on: each node numbers its grants, and the token
// is the largest number of a majority, of that one whose largest is the smallest.
// It counts once a majority has it, or a larger number. If all nodes have answered
// that is so already, after one round trip; else the nodes with smaller numbers
// are told of it, and those at which the token still holds the name take it over: a
// second round trip. The model spec/quorum.pml searches this rule for violations.
//
// A lease without a fencing token is asked for at a bare majority first, and at
// the other nodes when one of those fails, refuses or is slow, or a moment later if
// the lease is still held. Until then all of that majority are needed.
package quorum

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfastlock/holdfast/driver"
)

// Options configures a Store. The zero value is good.
type Options struct {
	// NodeTimeout is how long a node may take for one request; then it counts as
	// one that does not answer. Only a call that can't do without that node waits
	// as long. Keep it far below the TTL. 0 means 200 ms, or a tenth of the TTL
	// where that is less.
	NodeTimeout time.Duration
}

const (
	// longestTimeout and timeoutShare give the NodeTimeout that was not set.
	longestTimeout = 200 * time.Millisecond
	timeoutShare   = 10
	// linger is longer than a request can be on its way.
	linger = 20 * time.Second
	// leases is how many leases a locker may make of a grant. A vote and a release
	// take as long as hundreds of passes, and who waits polls with longer pauses.
	leases = 64
)

// Store keeps a lock at a majority of its nodes. It implements driver.Store, and
// driver.Lister if its nodes do, and is safe for concurrent use.
type Store struct {
	nodes    []driver.Store
	majority int
	timeout  time.Duration // 0: it goes by the TTL

	mu      sync.Mutex
	closed  bool
	closing chan struct{}
	running sync.WaitGroup // requests to nodes; counted under mu, and only while open
	workers sync.WaitGroup // counted by those that are running
	jobs    chan job
	waiting atomic.Int64 // workers without a job
	limits  limits
	late    lateNodes // too late for their fencing tokens to be waited for
	slow    lateNodes // not prompt: slow, failed, or not asked yet
	pace    pace
	tenures map[key]*tenure
	lanes   map[string]*lane // by name
	crowded int              // how many tenures there must be before those that are over are looked for
}

var (
	_ driver.Store  = (*Store)(nil)
	_ driver.Lister = (*Store)(nil)
)

// New returns a store of an odd number of nodes, 3 or more, or an error that
// matches driver.ErrMisconfigured. The caller closes the nodes, after the Store.
// Fencing tokens need nodes that implement driver.FenceRaiser, as redisstore does.
func New(nodes []driver.Store, options Options) (*Store, error) {
	if err := check(len(nodes), options); err != nil {
		return nil, &driver.Error{Kind: driver.ErrMisconfigured, Err: err}
	}
	s := &Store{
		nodes: append([]driver.Store(nil), nodes...), majority: len(nodes)/2 + 1, timeout: options.NodeTimeout,
		closing: make(chan struct{}), jobs: make(chan job), tenures: make(map[key]*tenure), lanes: make(map[string]*lane), crowded: fewTenures,
	}
	s.slow.missed(s.all())
	return s, nil
}

func check(n int, options Options) error {
	switch {
	case n < 3:
		return fmt.Errorf("a quorum of %d: with fewer than 3 nodes none may fail; use one store as it is", n)
	case n%2 == 0:
		return fmt.Errorf("a quorum of %d nodes bears no more failures than one of %d, and can be split in halves: use an odd number", n, n-1)
	case n > 63:
		return fmt.Errorf("a quorum of %d nodes: more than 63 are of no use", n)
	case options.NodeTimeout < 0:
		return fmt.Errorf("NodeTimeout %v is negative", options.NodeTimeout)
	}
	return nil
}

// Close returns when no request to a node is under way any more, which takes
// NodeTimeout at the most. Calls after it fail. It does not close the nodes.
func (s *Store) Close() {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.closing)
	}
	s.mu.Unlock()
	s.running.Wait()
	s.workers.Wait()
}

var errClosed = &driver.Error{Kind: driver.ErrUnreachable, Err: errors.New("the quorum is closed")}

// Capabilities implements driver.Store. FenceSurvivesWipe is not claimed: after a
// loss of all data fences start from the nodes' clocks, which may differ.
func (s *Store) Capabilities() driver.Capabilities {
	all := driver.Capabilities{FenceSurvivesRestart: true, Leases: leases}
	for _, node := range s.nodes {
		all.FenceSurvivesRestart = all.FenceSurvivesRestart && node.Capabilities().FenceSurvivesRestart
	}
	return all
}

// limit returns how long one request about a lease of ttl may take.
func (s *Store) limit(ttl time.Duration) time.Duration {
	switch {
	case s.timeout > 0:
		return s.timeout
	case ttl <= 0:
		return longestTimeout
	default:
		return min(longestTimeout, ttl/timeoutShare)
	}
}
