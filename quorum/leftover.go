package quorum

import (
	"time"

	"github.com/holdfastlock/holdfast/driver"
)

// bar keeps a part from counting while a release may be on its way. The caller
// holds the part's mutex.
func (s *Store) bar(t *tenure, i int) {
	t.parts[i].barred = time.Now().Add(linger)
	s.mu.Lock()
	defer s.mu.Unlock()
	t.doubt = true
	if t.parts[i].barred.After(t.until) {
		t.until = t.parts[i].barred
	}
}

// free releases the token at a node. The caller holds the part's mutex.
func (s *Store) free(t *tenure, i int, tombstone, limit time.Duration) (driver.Answer, error) {
	p := &t.parts[i]
	p.sent++
	req := driver.ReleaseRequest{Name: t.name, Token: t.token, Tombstone: tombstone}
	began := time.Now()
	answer, err := s.nodes[i].Release(s.limits.context(limit), req)
	s.heardFrom(i, began, err)
	if driver.Unknown(err) {
		p.unheard = true
		s.bar(t, i)
	}
	if err == nil {
		p.granted = false
		p.unheard = p.unheard && tombstone == 0
	}
	return answer, err
}

// How settle paces its releases: the first only when a waiter that polls would
// have asked again for the token, which it can't have any more afterwards.
const (
	firstSettle   = time.Second
	longestSettle = 4 * time.Second
)

// settle frees what a node holds, and sees to it that a request of the token, which
// was not answered, does not lock the name when it arrives, unless the token is
// asked for again. It gives up when a grant would have ended by itself.
func (s *Store) settle(t *tenure, i int) {
	s.mu.Lock()
	end := t.until
	s.mu.Unlock()
	p := &t.parts[i]
	p.mu.Lock()
	sent := p.sent
	p.mu.Unlock()
	for pause := firstSettle; ; pause = min(2*pause, longestSettle) {
		closing := s.pause(pause)
		p.mu.Lock()
		settled := p.sent != sent || !p.leftover()
		if !settled {
			_, _ = s.free(t, i, linger, s.limit(0))
			s.bar(t, i) // it refuses the token now
			sent, settled = p.sent, !p.leftover()
		}
		p.mu.Unlock()
		if settled || closing || time.Now().After(end) {
			return
		}
	}
}

// pause returns after d, or at once, with true, when the store is closed.
func (s *Store) pause(d time.Duration) (closing bool) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return false
	case <-s.closing:
		return true
	}
}
