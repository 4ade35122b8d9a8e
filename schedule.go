package holdfast

import (
	"container/heap"
	"math/rand/v2"
	"time"
)

// schedule holds leases by when they need something, the first first. It knows
// no clock and starts nothing: what it is told is all it knows. The keeper's
// mutex guards it and what it reads of the leases.
type schedule []*Lease

// step removes and returns the leases that are over, and returns those to be
// renewed now. A renewal that is due takes along those that soon will be.
func (s *schedule) step(now instant) (over, due []*Lease) {
	for len(*s) > 0 {
		l := (*s)[0]
		soon := l.due.Sub(now.at)
		along := len(due) > 0 && soon <= share(l.settings.ttl, batchShare)
		switch {
		case l.window.left(now) <= 0:
			s.drop(l)
			over = append(over, l)
			continue
		case l.renews() && (soon <= 0 || along):
			l.sending = true
			due = append(due, l)
		case soon > 0:
			return over, due
		}
		l.plan(now)
		heap.Fix(s, 0)
	}
	return over, due
}

// hurry makes every lease due at once.
func (s *schedule) hurry(now instant) {
	for _, l := range *s {
		l.due = now.at
	}
}

// idle returns how long nothing is due, and the clocks need no look.
func (s *schedule) idle(now instant) time.Duration {
	if len(*s) == 0 {
		return idleTurn
	}
	return min(max((*s)[0].due.Sub(now.at), 0), checkEvery)
}

// drop removes a lease, if it is in the schedule.
func (s *schedule) drop(l *Lease) {
	if l.index >= 0 {
		heap.Remove(s, l.index)
	}
}

// Len, Less, Swap, Push and Pop make the schedule a heap.Interface.
func (s schedule) Len() int           { return len(s) }
func (s schedule) Less(i, j int) bool { return s[i].due.Before(s[j].due) }
func (s schedule) Swap(i, j int) {
	s[i], s[j] = s[j], s[i]
	s[i].index, s[j].index = i, j
}

// Push adds a *Lease.
func (s *schedule) Push(x any) {
	l := x.(*Lease)
	l.index = len(*s)
	*s = append(*s, l)
}

// Pop removes the last.
func (s *schedule) Pop() any {
	last := len(*s) - 1
	l := (*s)[last]
	(*s)[last] = nil
	*s = (*s)[:last]
	l.index = -1
	return l
}

// plan sets when the lease next needs something: its renewal, or else its end.
func (l *Lease) plan(now instant) {
	left := l.window.left(now)
	if l.renews() {
		after := share(l.settings.ttl, renewAfter*(1-rand.Float64()*renewJitter))
		left -= trusted(l.settings.ttl) - after
	}
	l.due = now.at.Add(max(left, 0))
}

// planRetry sets when a renewal that failed is tried again.
func (l *Lease) planRetry(now instant) {
	left := l.window.left(now)
	pause := min(max(share(left, retryShare), retrySoonest), retrySlowest)
	l.due = now.at.Add(min(jitter(pause), left))
}

// renews says whether the lease is to be renewed, now or later.
func (l *Lease) renews() bool {
	return l.settings.keepAlive && !l.sending && !l.atLimit()
}

// atLimit says whether the window already ends with the longest allowed hold.
func (l *Lease) atLimit() bool {
	return l.settings.maxHold > 0 &&
		l.window.from.since(l.granted)+l.window.length >= l.settings.maxHold
}

// limited returns the window, cut to the longest allowed hold.
func (l *Lease) limited(w window) window {
	if l.settings.maxHold == 0 {
		return w
	}
	return w.capped(l.granted, l.settings.maxHold)
}

// whyOver returns the reason for which a window that is over ended.
func (l *Lease) whyOver(now instant) LostReason {
	if l.settings.maxHold > 0 && now.since(l.granted) >= l.settings.maxHold {
		return LostMaxHold
	}
	return LostExpired
}

func share(d time.Duration, part float64) time.Duration {
	return time.Duration(float64(d) * part)
}

// jitter returns a random time between a half of d and d.
func jitter(d time.Duration) time.Duration {
	return d/2 + rand.N(d/2+1)
}
