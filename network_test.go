package holdfast

import (
	"context"
	"time"

	"github.com/holdfastlock/holdfast/driver"
	"github.com/holdfastlock/holdfast/memstore"
)

// network is the store as one process sees it through a bad network: requests
// and replies are lost, or so late that their caller has gone.
type network struct {
	*memstore.Store
	machine *machine

	// Guarded by the machine's mutex.
	rate  float64 // of requests and replies that are lost
	delay time.Duration
}

// Acquire, Enqueue, Extend and Release pass through the network.
func (n *network) Acquire(ctx context.Context, req driver.AcquireRequest) (driver.AcquireResult, error) {
	return send(ctx, n, func() (driver.AcquireResult, error) { return n.Store.Acquire(context.Background(), req) })
}

func (n *network) Enqueue(ctx context.Context, req driver.QueueRequest) (driver.QueueResult, error) {
	return send(ctx, n, func() (driver.QueueResult, error) { return n.Store.Enqueue(context.Background(), req) })
}

func (n *network) Extend(ctx context.Context, reqs []driver.ExtendRequest) []driver.ExtendResult {
	results, err := send(ctx, n, func() ([]driver.ExtendResult, error) { return n.Store.Extend(context.Background(), reqs), nil })
	if err != nil {
		return []driver.ExtendResult{{Err: err}}
	}
	return results
}

func (n *network) Release(ctx context.Context, req driver.ReleaseRequest) (driver.Answer, error) {
	return send(ctx, n, func() (driver.Answer, error) { return n.Store.Release(context.Background(), req) })
}

// send carries op out as a store does, but the caller hears of it only through
// the network.
func send[T any](ctx context.Context, n *network, op func() (T, error)) (T, error) {
	type reply struct {
		answer T
		err    error
	}
	outcome := n.outcome()
	if outcome.requestLost {
		return reply{}.answer, errDown
	}
	arrived := make(chan reply, 1)
	n.machine.underWay.Add(1)
	go func() {
		time.Sleep(outcome.there)
		answer, err := op()
		n.machine.underWay.Add(-1)
		time.Sleep(outcome.back)
		arrived <- reply{answer, err}
	}()
	if outcome.replyLost { // the connection broke; the request may still arrive
		return reply{}.answer, errDown
	}
	select {
	case <-ctx.Done():
		return reply{}.answer, driver.NoAnswer(ctx, ctx.Err())
	case r := <-arrived:
		return r.answer, r.err
	}
}

type outcome struct {
	requestLost, replyLost bool
	there, back            time.Duration
}

// outcome draws what happens to one request.
func (n *network) outcome() outcome {
	m := n.machine
	m.mu.Lock()
	defer m.mu.Unlock()
	roll := m.random.Float64()
	o := outcome{requestLost: roll < n.rate/2, replyLost: roll >= n.rate/2 && roll < n.rate}
	if n.delay > 0 {
		o.there = time.Duration(m.random.Int64N(int64(n.delay)))
		o.back = time.Duration(m.random.Int64N(int64(n.delay)))
	}
	return o
}
