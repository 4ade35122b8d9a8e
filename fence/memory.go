package fence

import "sync"

// Memory remembers in memory the largest fence that each resource has seen. Its
// zero value is ready to use and has seen none. All methods may be called by
// many goroutines at once; those that concern different resources do not wait
// for each other. It keeps an entry, of about a hundred bytes, for each resource
// that was ever named.
type Memory struct {
	mu   sync.Mutex
	seen map[string]*mark
}

// mark is the largest fence that a resource has seen, and who has shown it.
type mark struct {
	mu    sync.Mutex // held while a change is made
	fence int64
	owner string
}

// Touch shows a fence to the resource: from now on every smaller one is refused.
// A holder does this before it reads what it is going to change. Owner says who
// holds the lease, in a way that no two leases share: a host with a process
// and a number, but not the lease's token, which is a secret.
//
// The error is a *StaleError if a larger fence was seen, a *ConflictError if the
// same one was shown by another owner, or ErrNoFence. A refused fence leaves
// everything as it was.
func (m *Memory) Touch(resource, owner string, fence int64) error {
	return m.Do(resource, owner, fence, func() error { return nil })
}

// Do shows a fence to the resource as Touch does, and if it is not refused calls
// change, in one step: no other fence is shown to the resource meanwhile, so
// that none can be accepted between the check and the change. The error is that
// of Touch, or of change. Change must not use the Memory for the same resource.
func (m *Memory) Do(resource, owner string, fence int64, change func() error) error {
	if fence <= 0 {
		return ErrNoFence
	}
	at := m.mark(resource)
	at.mu.Lock()
	defer at.mu.Unlock()
	switch {
	case fence < at.fence:
		return &StaleError{Resource: resource, Fence: fence, Newest: at.fence}
	case fence == at.fence && owner != at.owner:
		return &ConflictError{Resource: resource, Fence: fence, Owner: owner, First: at.owner}
	}
	at.fence, at.owner = fence, owner
	return change()
}

// Newest returns the largest fence that the resource has seen, or 0.
func (m *Memory) Newest(resource string) int64 {
	at := m.mark(resource)
	at.mu.Lock()
	defer at.mu.Unlock()
	return at.fence
}

func (m *Memory) mark(resource string) *mark {
	m.mu.Lock()
	defer m.mu.Unlock()
	at := m.seen[resource]
	if at == nil {
		if m.seen == nil {
			m.seen = make(map[string]*mark)
		}
		at = &mark{}
		m.seen[resource] = at
	}
	return at
}
