package memstore

import (
	"context"
	"slices"
	"time"

	"github.com/holdfastlock/holdfast/driver"
)

// place is that of a waiter in a queue.
type place struct {
	inbox, token string
}

// Enqueue implements driver.Queuer. A handed name is told to its inbox on the
// caller's goroutine.
func (s *Store) Enqueue(ctx context.Context, req driver.QueueRequest) (driver.QueueResult, error) {
	if err := driver.CheckName(req.Name); err != nil {
		return driver.QueueResult{}, err
	}
	if req.Mode != driver.Exclusive {
		return driver.QueueResult{}, &driver.Error{Kind: driver.ErrUnsupported, Hint: "a queue is for exclusive holders"}
	}
	return carryOut(ctx, s, "enqueue", func(now time.Time) (driver.QueueResult, error) {
		return s.enqueue(req, now)
	})
}

func (s *Store) enqueue(req driver.QueueRequest, now time.Time) (result driver.QueueResult, err error) {
	l := s.current(req.Name, now)
	mine := place{req.Inbox, req.Token}
	if req.Previous != "" {
		result.Previous = l.release(driver.ReleaseRequest{Token: req.Previous, Inbox: req.Inbox}, now)
	}
	if _, refused := l.withdrawn[req.Token]; refused {
		l.leave(mine)
	}
	if len(l.holders) == 0 {
		s.handOn(l, req.Name, mine, now)
	}
	if result.Previous == driver.Mine {
		s.notify(req.Name)
	}
	result.AcquireResult, err = l.acquire(req.AcquireRequest, now)
	switch {
	case err != nil:
		return driver.QueueResult{}, err
	case result.Granted:
		l.leave(mine)
	default:
		result.Before = l.join(mine, now.Add(req.Keep))
	}
	return result, nil
}

// handOn keeps a free name for the first waiter before self whose inbox
// listens. Those whose inbox does not lose their places. The caller holds the
// mutex.
func (s *Store) handOn(l *lock, name string, self place, now time.Time) {
	for len(l.holders) == 0 && len(l.queue) > 0 && l.queue[0] != self {
		first := l.queue[0]
		l.leave(first)
		if to := s.inboxes[first.inbox]; to != nil && !to.cut {
			l.holders = []*holder{{token: first.token, since: now, until: now.Add(driver.Claim), claim: true}}
			s.told = append(s.told, message{to, driver.HandOff{Name: name, Token: first.token}})
		}
	}
}

// join returns how many are before the place, which is the last one if it was
// not there.
func (l *lock) join(p place, until time.Time) (before int) {
	if until.After(l.queued) {
		l.queued = until
	}
	before = slices.Index(l.queue, p)
	if before < 0 {
		before = len(l.queue)
		l.queue = append(l.queue, p)
	}
	return before
}

func (l *lock) leave(p place) {
	l.queue = slices.DeleteFunc(l.queue, func(other place) bool { return other == p })
}
