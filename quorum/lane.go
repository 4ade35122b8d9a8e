package quorum

// lane is what the tenures of a name have in common.
type lane struct {
	users int     // of Store.mu: tenures that are known
	freed *tenure // of Store.mu: the one that was released last; nil: none
}

// leave notes that the tenure is about to be released at nodes.
func (s *Store) leave(t *tenure, nodes nodeSet) {
	for i := range t.parts {
		if nodes.has(i) {
			t.parts[i].freeing.Store(true)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t.lane.freed = t
}

// before returns the tenure of the same name that was released last by this
// process, or nil. A request for the name must not overtake that release at a node:
// it would be refused there.
func (s *Store) before(t *tenure) *tenure {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.lane.freed == t {
		return nil
	}
	return t.lane.freed
}

// waitFreed returns when the tenure is not being released at the node any more. A
// nil tenure is not.
func (t *tenure) waitFreed(i int) {
	if t == nil || !t.parts[i].freeing.Load() {
		return
	}
	p := &t.parts[i]
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.freeing.Load() {
		p.freed.Wait()
	}
}
