package memstore

import (
	"maps"
	"slices"
	"time"

	"github.com/holdfastlock/holdfast/driver"
)

// lock is all that is known of one name. It is kept when the name is free, for
// its fence.
type lock struct {
	fence     int64                // the last one granted or reserved
	holders   []*holder            // in the order of their grants
	withdrawn map[string]time.Time // tombstones: until when a token is refused
	queue     []place              // the first comes first
	queued    time.Time            // until when the queue is kept
}

type holder struct {
	token   string
	fence   int64 // the last one reserved for it; 0: it has none
	since   time.Time
	until   time.Time
	purpose string
	mode    driver.Mode
	claim   bool // the name is kept for it, and it has not asked yet
}

// current returns the lock of that name as it is now, without what has expired.
// The caller holds the mutex.
func (s *Store) current(name string, now time.Time) *lock {
	l := s.locks[name]
	if l == nil {
		l = &lock{withdrawn: make(map[string]time.Time)}
		s.locks[name] = l
	}
	l.holders = slices.DeleteFunc(l.holders, func(h *holder) bool { return !now.Before(h.until) })
	maps.DeleteFunc(l.withdrawn, func(_ string, until time.Time) bool { return !now.Before(until) })
	if !now.Before(l.queued) {
		l.queue = nil
	}
	return l
}

func (l *lock) acquire(req driver.AcquireRequest, now time.Time) (driver.AcquireResult, error) {
	if _, refused := l.withdrawn[req.Token]; refused {
		return driver.AcquireResult{}, driver.ErrWithdrawn
	}
	h := l.find(req.Token)
	if h == nil && !l.admits(req) {
		return driver.AcquireResult{State: l.state(req.Name, now)}, nil
	}
	if h == nil {
		h = &holder{token: req.Token, mode: req.Mode, claim: true}
		l.holders = append(l.holders, h)
	}
	h.lastUntil(now.Add(req.TTL))
	if h.claim {
		l.grant(h, req, now)
	}
	if h.fence == 0 {
		return driver.AcquireResult{Granted: true}, nil
	}
	return driver.AcquireResult{Granted: true, Fence: req.First(h.fence)}, nil
}

// grant makes a claim a holding with a fence of its own.
func (l *lock) grant(h *holder, req driver.AcquireRequest, now time.Time) {
	h.claim, h.since, h.purpose = false, now, req.Purpose
	if !req.NoFence {
		l.fence = req.Last(max(l.fence+1, now.UnixMicro()))
		h.fence = l.fence
	}
}

// admits says whether one more holder fits: into a free name, or beside other
// shared ones.
func (l *lock) admits(req driver.AcquireRequest) bool {
	if len(l.holders) == 0 {
		return true
	}
	return req.Mode == driver.Shared && l.holders[0].mode == driver.Shared && len(l.holders) < req.Limit
}

func (l *lock) release(req driver.ReleaseRequest, now time.Time) driver.Answer {
	// The tombstone is wanted above all where the token holds nothing yet.
	if req.Tombstone > 0 {
		l.withdrawn[req.Token] = now.Add(req.Tombstone)
	}
	l.leave(place{req.Inbox, req.Token})
	answer := l.compare(req.Token)
	l.holders = slices.DeleteFunc(l.holders, func(h *holder) bool { return h.token == req.Token })
	return answer
}

func (l *lock) compare(token string) driver.Answer {
	switch {
	case l.find(token) != nil:
		return driver.Mine
	case len(l.holders) == 0:
		return driver.Gone
	default:
		return driver.Taken
	}
}

func (l *lock) find(token string) *holder {
	for _, h := range l.holders {
		if h.token == token {
			return h
		}
	}
	return nil
}

// lastUntil never shortens: a request that arrives late can do no harm.
func (h *holder) lastUntil(until time.Time) {
	if until.After(h.until) {
		h.until = until
	}
}

func (l *lock) state(name string, now time.Time) driver.State {
	state := driver.State{Name: name, Fence: l.fence}
	for _, h := range l.holders {
		state.Holders = append(state.Holders, driver.Holder{
			Token:   h.token,
			Fence:   h.fence,
			Age:     max(0, now.Sub(h.since)), // the clock may have been moved back
			Left:    h.until.Sub(now),
			Purpose: h.purpose,
			Mode:    h.mode,
		})
	}
	return state
}
