package quorum

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfastlock/holdfast/driver"
)

// fewTenures is below which nothing is gained by looking for those that are over.
const fewTenures = 1024

// key is one token's claim to one name.
type key struct{ name, token string }

// tenure is what this process knows of one token's hold on a name, and of its
// attempts at it.
type tenure struct {
	key
	users int       // of Store.mu: requests under way
	over  bool      // of Store.mu: nothing of it is to be kept but a doubt
	doubt bool      // of Store.mu: a part is barred
	until time.Time // of Store.mu: how long it is worth keeping

	parts []part // one for each node
	lane  *lane

	mu    sync.Mutex
	held  bool // granted, and not released
	grant grant
	asked nodeSet     // where acquires have been sent to
	fills *time.Timer // asks the others; nil: all were asked
	freed nodeSet     // nodes freed by a release that, as a whole, had no answer
}

// lane is what the tenures of a name have in common.
type lane struct {
	users int     // of Store.mu: tenures that are known
	freed *tenure // of Store.mu: the one that was released last; nil: none
}

// grant is what a vote has won.
type grant struct {
	last  int64     // the last of the fencing tokens agreed on; 0: none
	since time.Time // when it was asked for
}

// part is the tenure at one node.
type part struct {
	// mu is held while a request for the token is under way to the node: what
	// one request leaves behind is known when the next one is sent.
	mu      sync.Mutex
	freed   sync.Cond   // of mu: freeing is over
	freeing atomic.Bool // a release is under way, or about to be
	sent    int         // how many requests so far
	number  int64       // the last of the fencing tokens that the node gave; 0: unknown
	// unheard says that an acquire was not answered: it may be carried out yet.
	unheard bool
	// barred is until when a release may arrive late, or the node refuses the
	// token: it can't count for the token so long.
	barred time.Time
}

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

// forget drops what is known of a tenure. The caller holds mu.
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
	if t.users == 0 && t.over && !t.doubt {
		s.forget(t)
	}
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

func (t *tenure) granted() grant {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.grant
}

func (t *tenure) isHeld() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.held
}

func (t *tenure) hold(won grant) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.held, t.grant, t.freed = true, won, 0
}

// ask notes that an acquire is about to be sent to a node.
func (t *tenure) ask(node int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.asked = t.asked.with(node)
}

// release ends it, and returns at which nodes it may be, all unless it was won by
// this process, and which were freed before by a release that had no answer.
func (t *tenure) release(all nodeSet) (at, freed nodeSet) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.fills != nil {
		t.fills.Stop()
	}
	at, freed = all, t.freed
	if t.held {
		at = t.asked
	}
	t.held, t.grant, t.freed = false, grant{}, 0
	return at, freed
}

func (t *tenure) remember(freed nodeSet) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.freed = freed
}

// lose notes that a vote was lost: unless an earlier one was won, nothing is to be
// kept of the tenure.
func (s *Store) lose(t *tenure) {
	held := t.isHeld()
	s.mu.Lock()
	defer s.mu.Unlock()
	t.over = !held
}

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
	switch {
	case driver.Unknown(err):
		p.unheard = true
		s.bar(t, i)
	case err == nil && tombstone > 0:
		p.unheard = false
	}
	return answer, err
}

// How settle paces its releases: the first only when a waiter that polls would
// have asked again for the token, which it can't have any more afterwards.
const (
	firstSettle   = time.Second
	longestSettle = 4 * time.Second
)

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

// settle sees to it that a request of the token to a node, which was not answered,
// does not lock the name when it arrives, unless the token is asked for again. It
// gives up when a grant would have ended by itself.
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
		settled := p.sent != sent || !p.unheard
		if !settled {
			_, _ = s.free(t, i, linger, s.limit(0))
			s.bar(t, i) // it refuses the token now
			sent, settled = p.sent, !p.unheard
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
