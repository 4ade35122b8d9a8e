package fence

import (
	"context"
	"sync"
)

// Memory is a Guard that remembers in memory, for a resource that is one process.
// Its zero value is ready to use and has seen no fence. Callers that are
// concerned with different resources do not wait for each other. It keeps an
// entry, of a few hundred bytes, for each resource that was ever named.
type Memory struct {
	mu   sync.Mutex
	seen map[string]*entry
}

// entry is what is remembered of one resource.
type entry struct {
	turn chan struct{} // has one element while somebody looks or makes a change
	mark Mark          // guarded by turn
}

// Touch implements Guard.
func (m *Memory) Touch(ctx context.Context, resource, owner string, fence int64) error {
	return m.Do(ctx, resource, owner, fence, func(context.Context) error { return nil })
}

// Do implements Guard.
func (m *Memory) Do(ctx context.Context, resource, owner string, fence int64, change func(context.Context) error) error {
	at := m.entry(resource)
	select {
	case at.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer at.leave()
	if err := at.mark.Check(resource, owner, fence); err != nil {
		return err
	}
	at.mark = Mark{fence, owner}
	return change(ctx)
}

// Newest returns the largest fence that the resource has seen, or 0. It waits
// for a change that is under way.
func (m *Memory) Newest(resource string) int64 {
	at := m.entry(resource)
	at.turn <- struct{}{}
	defer at.leave()
	return at.mark.Fence
}

func (m *Memory) entry(resource string) *entry {
	m.mu.Lock()
	defer m.mu.Unlock()
	at := m.seen[resource]
	if at == nil {
		if m.seen == nil {
			m.seen = make(map[string]*entry)
		}
		at = &entry{turn: make(chan struct{}, 1)}
		m.seen[resource] = at
	}
	return at
}

func (e *entry) leave() { <-e.turn }
