package quorum

import (
	"errors"
	"math/bits"
	"sync/atomic"
	"time"

	"github.com/holdfastlock/holdfast/driver"
)

const (
	// A node is prompt within promptTimes what a vote takes usually, but not more
	// than longestPrompt: of nodes further away all are asked. Less than
	// shortestPrompt would tell of this machine, not of the node.
	promptTimes    = 3
	shortestPrompt = time.Millisecond
	longestPrompt  = 25 * time.Millisecond
)

// pace is how long votes take: a mean of the last ones, in ns.
type pace struct{ usual atomic.Int64 }

// voted notes a vote. Of some that end together one may be left out.
func (p *pace) voted(took time.Duration) {
	usual := p.usual.Load()
	p.usual.Store(usual + (int64(took)-usual)/8)
}

// prompt returns how long a node may take before the others are asked too.
func (p *pace) prompt() time.Duration {
	return min(max(promptTimes*time.Duration(p.usual.Load()), shortestPrompt), longestPrompt)
}

// heardFrom notes what came of a request to a node that began then.
func (s *Store) heardFrom(node int, began time.Time, err error) {
	switch {
	case failed(err):
		s.slow.missed(nodeSet(0).with(node))
	case time.Since(began) <= s.pace.prompt():
		s.slow.met(node)
	}
}

// failed says that an error of a node is not its answer.
func failed(err error) bool { return err != nil && !errors.Is(err, driver.ErrWithdrawn) }

// nodeSet has a bit for each node.
type nodeSet uint64

func (s nodeSet) with(node int) nodeSet { return s | 1<<node }
func (s nodeSet) has(node int) bool     { return s&(1<<node) != 0 }
func (s nodeSet) count() int            { return bits.OnesCount64(uint64(s)) }

// lateNodes are those that were waited for in vain, and have not been in time
// since.
type lateNodes struct{ set atomic.Uint64 }

func (l *lateNodes) nodes() nodeSet { return nodeSet(l.set.Load()) }

func (l *lateNodes) missed(nodes nodeSet) { l.set.Or(uint64(nodes)) }

// met notes that a node was in time.
func (l *lateNodes) met(node int) {
	if l.nodes().has(node) {
		l.set.And(^uint64(1 << node))
	}
}
