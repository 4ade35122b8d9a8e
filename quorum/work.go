package quorum

import (
	"context"
	"sync"
	"time"
)

// idle is how many goroutines wait for the next request to a node. One that has
// grown its stack is cheaper than a new one.
const idle = 256

// task is a call's part at one node, which runs on a goroutine of its own.
type task interface{ at(node int) }

type taskFunc func(node int)

func (f taskFunc) at(node int) { f(node) }

// job is a task at a node.
type job struct {
	task task
	node int
}

// start runs the task for each of the nodes. The caller has called open or enter,
// and the task calls done or left.
func (s *Store) start(t task, nodes nodeSet) {
	for node := range s.nodes {
		if !nodes.has(node) {
			continue
		}
		j := job{t, node}
		select {
		case s.jobs <- j:
		default:
			s.workers.Go(func() { s.work(j) })
		}
	}
}

// work does one job after another, unless enough others wait for the next.
func (s *Store) work(j job) {
	for {
		j.task.at(j.node)
		if s.waiting.Add(1) > idle {
			s.waiting.Add(-1)
			return
		}
		select {
		case j = <-s.jobs:
			s.waiting.Add(-1)
		case <-s.closing:
			return
		}
	}
}

// limits gives contexts that end after a limit, or up to an eighth sooner, and
// only then. Requests that begin soon after one another share one: a timer for each
// costs more than it is worth.
type limits struct {
	mu    sync.Mutex
	limit time.Duration
	ctx   context.Context
	end   context.CancelFunc // not called: nobody may end it for the others
	fresh time.Time          // until when it is given away
}

func (l *limits) context(limit time.Duration) context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := time.Now(); l.limit != limit || now.After(l.fresh) {
		l.ctx, l.end = context.WithTimeout(context.Background(), limit)
		l.limit, l.fresh = limit, now.Add(limit/8)
	}
	return l.ctx
}
