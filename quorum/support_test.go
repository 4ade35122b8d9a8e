package quorum

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/holdfastlock/holdfast/driver"
	"github.com/holdfastlock/holdfast/memstore"
)

// patience is how long a condition that must come true may take.
const patience = 15 * time.Second

// node is a store in memory whose operations can be held up or made to fail.
type node struct {
	*memstore.Store

	mu     sync.Mutex
	gate   chan struct{} // not nil: operations wait until it is closed, or their context ends
	holds  string        // the operation that does; empty: all
	held   int           // how many wait
	counts map[string]int
	broken error
}

func newNode() *node { return &node{Store: memstore.New(), counts: make(map[string]int)} }

// pass counts an operation, and waits for its turn.
func (n *node) pass(ctx context.Context, op string) error {
	n.mu.Lock()
	gate, err := n.gate, n.broken
	if n.holds != "" && n.holds != op {
		gate = nil
	}
	n.counts[op]++
	if gate != nil {
		n.held++
	}
	n.mu.Unlock()
	if gate == nil {
		return err
	}
	defer func() {
		n.mu.Lock()
		n.held--
		n.mu.Unlock()
	}()
	select {
	case <-gate:
		return nil
	case <-ctx.Done():
		return driver.NoAnswer(context.Background(), ctx.Err())
	}
}

func (n *node) Acquire(ctx context.Context, req driver.AcquireRequest) (driver.AcquireResult, error) {
	if err := n.pass(ctx, "acquire"); err != nil {
		return driver.AcquireResult{}, err
	}
	return n.Store.Acquire(ctx, req)
}

func (n *node) Extend(ctx context.Context, reqs []driver.ExtendRequest) []driver.ExtendResult {
	if err := n.pass(ctx, "extend"); err != nil {
		results := make([]driver.ExtendResult, len(reqs))
		for i := range results {
			results[i].Err = err
		}
		return results
	}
	return n.Store.Extend(ctx, reqs)
}

func (n *node) Release(ctx context.Context, req driver.ReleaseRequest) (driver.Answer, error) {
	if err := n.pass(ctx, "release"); err != nil {
		return 0, err
	}
	return n.Store.Release(ctx, req)
}

func (n *node) Inspect(ctx context.Context, name string) (driver.State, error) {
	if err := n.pass(ctx, "inspect"); err != nil {
		return driver.State{}, err
	}
	return n.Store.Inspect(ctx, name)
}

func (n *node) RaiseFence(ctx context.Context, req driver.RaiseRequest) (driver.Answer, error) {
	if err := n.pass(ctx, "raise"); err != nil {
		return 0, err
	}
	return n.Store.RaiseFence(ctx, req)
}

// stop holds up an operation, or all if it is empty, until go on is called.
func (n *node) stop(op string) (goOn func()) {
	gate := make(chan struct{})
	n.mu.Lock()
	defer n.mu.Unlock()
	n.gate, n.holds = gate, op
	return sync.OnceFunc(func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.gate = nil
		close(gate)
	})
}

func (n *node) breakWith(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.broken = err
}

func (n *node) waiting() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.held
}

func (n *node) count(op string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.counts[op]
}

// heldBy returns the token that holds the name at the node itself.
func (n *node) heldBy(t *testing.T, name string) string {
	t.Helper()
	state, err := n.Store.Inspect(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return holderOf(state).Token
}

// down is the error of a node that is not there, which nobody has asked.
var down = &driver.Error{Kind: driver.ErrUnreachable, Err: &net.OpError{Op: "dial", Err: errors.New("connection refused")}}

func nodes(n int) []*node {
	list := make([]*node, n)
	for i := range list {
		list[i] = newNode()
	}
	return list
}

// quorumOf returns a quorum that ends with the test.
func quorumOf(t *testing.T, options Options, list ...*node) *Store {
	t.Helper()
	stores := make([]driver.Store, len(list))
	for i, n := range list {
		stores[i] = n
	}
	return ofNodes(t, options, stores...)
}

func request(name string) driver.AcquireRequest {
	return driver.AcquireRequest{Name: name, Token: driver.NewToken("host/1"), TTL: time.Minute}
}

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

func acquire(t *testing.T, store driver.Store, req driver.AcquireRequest) int64 {
	t.Helper()
	result, err := store.Acquire(within(t), req)
	if err != nil || !result.Granted {
		t.Fatalf("Acquire %q: granted %v, %v", req.Name, result.Granted, err)
	}
	return result.Fence
}

func refuse(t *testing.T, store driver.Store, req driver.AcquireRequest) driver.State {
	t.Helper()
	result, err := store.Acquire(within(t), req)
	if err != nil || result.Granted {
		t.Fatalf("Acquire %q: granted %v, %v, want a refusal", req.Name, result.Granted, err)
	}
	return result.State
}

func release(t *testing.T, store driver.Store, req driver.AcquireRequest, want driver.Answer) {
	t.Helper()
	answer, err := store.Release(within(t), driver.ReleaseRequest{Name: req.Name, Token: req.Token})
	if err != nil || answer != want {
		t.Fatalf("Release %q: %v, %v, want %v", req.Name, answer, err, want)
	}
}

func extend(t *testing.T, store driver.Store, req driver.AcquireRequest) driver.ExtendResult {
	t.Helper()
	return store.Extend(within(t), []driver.ExtendRequest{{Name: req.Name, Token: req.Token, TTL: req.TTL}})[0]
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not true after %v: %s", patience, what)
		}
	}
}

// freeAt waits until the name is free at each of the nodes.
func freeAt(t *testing.T, name string, list ...*node) {
	t.Helper()
	for _, n := range list {
		eventually(t, "the name is free at each node", func() bool {
			t.Helper()
			return n.heldBy(t, name) == ""
		})
	}
}

// faults loses some requests, and some replies.
func faults(err error) func(op string) memstore.Fault {
	return func(string) memstore.Fault {
		switch rand.IntN(4) {
		case 0:
			return memstore.Fault{Before: err}
		case 1:
			return memstore.Fault{After: err}
		default:
			return memstore.Fault{}
		}
	}
}
