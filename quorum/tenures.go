package quorum

import (
	"time"

	"github.com/holdfastlock/holdfast/driver"
)

// fewTenures is below which nothing is gained by looking for those that are over.
const fewTenures = 1024

// open counts the requests that a call is about to send, one to each node, unless
// the store is closed.
func (s *Store) open() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.openLocked()
}

func (s *Store) openLocked() error {
	if s.closed {
		return errClosed
	}
	s.running.Add(len(s.nodes))
	return nil
}

// enter is open for a call about one tenure that may last for ttl from now.
func (s *Store) enter(k key, ttl time.Duration) (*tenure, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.openLocked(); err != nil {
		return nil, err
	}
	now := time.Now()
	t := s.tenures[k]
	if t == nil {
		if len(s.tenures) >= s.crowded {
			s.sweep(now)
		}
		t = s.add(k)
	}
	t.users += len(s.nodes)
	t.over = false
	if until := now.Add(ttl); until.After(t.until) {
		t.until = until
	}
	return t, nil
}

// add makes a tenure. The caller holds mu.
func (s *Store) add(k key) *tenure {
	t := &tenure{key: k, parts: make([]part, len(s.nodes)), lane: s.lanes[k.name]}
	for i := range t.parts {
		t.parts[i].freed.L = &t.parts[i].mu
	}
	if t.lane == nil {
		t.lane = &lane{}
		s.lanes[k.name] = t.lane
	}
	t.lane.users++
	s.tenures[k] = t
	return t
}

// drop forgets a tenure if nothing of it is to be kept, unless another call of the
// same token has done so. The caller holds mu.
func (s *Store) drop(t *tenure) {
	if t.users == 0 && t.over && !t.doubt && s.tenures[t.key] == t {
		s.forget(t)
	}
}

// forget takes a tenure from the table. The caller holds mu.
func (s *Store) forget(t *tenure) {
	delete(s.tenures, t.key)
	if t.lane.users--; t.lane.users == 0 {
		delete(s.lanes, t.name)
	}
}

// left ends some requests, or does without them.
func (s *Store) left(t *tenure, requests int) {
	if requests == 0 {
		return
	}
	s.mu.Lock()
	t.users -= requests
	s.drop(t)
	s.mu.Unlock()
	s.running.Add(-requests)
}

// sweep forgets the tenures that have ended by themselves. The caller holds mu.
func (s *Store) sweep(now time.Time) {
	for _, t := range s.tenures {
		if t.users == 0 && now.After(t.until) {
			s.forget(t)
		}
	}
	s.crowded = max(fewTenures, 2*len(s.tenures))
}

// prolong keeps what is known of a lease for as long as it lasts.
func (s *Store) prolong(reqs []driver.ExtendRequest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for _, req := range reqs {
		if t := s.tenures[key{req.Name, req.Token}]; t != nil && now.Add(req.TTL).After(t.until) {
			t.until = now.Add(req.TTL)
		}
	}
}

// grantOf returns what was granted to a token by this process; the zero grant if
// nothing is known.
func (s *Store) grantOf(k key) grant {
	s.mu.Lock()
	t := s.tenures[k]
	s.mu.Unlock()
	if t == nil {
		return grant{}
	}
	return t.granted()
}

// lose notes that a vote was lost, or what it had won released: unless an earlier one
// is held, nothing is to be kept of the tenure.
func (s *Store) lose(t *tenure) {
	held := t.isHeld()
	s.mu.Lock()
	defer s.mu.Unlock()
	t.over = !held
	s.drop(t)
}
