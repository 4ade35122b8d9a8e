package holdfast

import (
	"container/heap"
	"math/rand/v2"
	"time"
)

// schedule holds tenures by when they need something, the first first. It knows
// no clock and starts nothing: what it is told is all it knows. The keeper's
// mutex guards it and what it reads of the tenures.
type schedule []*tenure

// step removes and returns the tenures that are over, and returns those to be
// renewed now. A renewal that is due takes along those that soon will be.
func (s *schedule) step(now instant) (over, due []*tenure) {
	for len(*s) > 0 {
		t := (*s)[0]
		soon := t.due.Sub(now.at)
		along := len(due) > 0 && soon <= share(t.settings.ttl, batchShare)
		switch {
		case t.window.left(now) <= 0:
			s.drop(t)
			over = append(over, t)
			continue
		case t.renews() && (soon <= 0 || along):
			t.sending = true
			due = append(due, t)
		case soon > 0:
			return over, due
		}
		t.plan(now)
		heap.Fix(s, 0)
	}
	return over, due
}

// hurry makes every tenure due at once.
func (s *schedule) hurry(now instant) {
	for _, t := range *s {
		t.due = now.at
	}
}

// idle returns how long nothing is due, and the clocks need no look.
func (s *schedule) idle(now instant) time.Duration {
	if len(*s) == 0 {
		return idleTurn
	}
	return min(max((*s)[0].due.Sub(now.at), 0), checkEvery)
}

// drop removes a tenure, if it is in the schedule.
func (s *schedule) drop(t *tenure) {
	if t.index >= 0 {
		heap.Remove(s, t.index)
	}
}

// Len, Less, Swap, Push and Pop make the schedule a heap.Interface.
func (s schedule) Len() int           { return len(s) }
func (s schedule) Less(i, j int) bool { return s[i].due.Before(s[j].due) }
func (s schedule) Swap(i, j int) {
	s[i], s[j] = s[j], s[i]
	s[i].index, s[j].index = i, j
}

// Push adds a *tenure.
func (s *schedule) Push(x any) {
	t := x.(*tenure)
	t.index = len(*s)
	*s = append(*s, t)
}

// Pop removes the last.
func (s *schedule) Pop() any {
	last := len(*s) - 1
	t := (*s)[last]
	(*s)[last] = nil
	*s = (*s)[:last]
	t.index = -1
	return t
}

// plan sets when the tenure next needs something: its renewal, or else its end.
func (t *tenure) plan(now instant) {
	left := t.window.left(now)
	if t.renews() {
		after := share(t.settings.ttl, renewAfter*(1-rand.Float64()*renewJitter))
		left -= trusted(t.settings.ttl) - after
	}
	t.due = now.at.Add(max(left, 0))
}

// planRetry sets when a renewal that failed is tried again.
func (t *tenure) planRetry(now instant) {
	left := t.window.left(now)
	pause := min(max(share(left, retryShare), retrySoonest), retrySlowest)
	t.due = now.at.Add(min(jitter(pause), left))
}

// renews says whether the tenure is to be renewed, now or later.
func (t *tenure) renews() bool {
	return t.settings.keepAlive && !t.sending && !t.atLimit()
}

// atLimit says whether the window already ends with the longest allowed hold.
func (t *tenure) atLimit() bool {
	return t.settings.maxHold > 0 &&
		t.window.from.since(t.granted)+t.window.length >= t.settings.maxHold
}

// limited returns the window, cut to the longest allowed hold.
func (t *tenure) limited(w window) window {
	if t.settings.maxHold == 0 {
		return w
	}
	return w.capped(t.granted, t.settings.maxHold)
}

// whyOver returns the reason for which a window that is over ended.
func (t *tenure) whyOver(now instant) LostReason {
	if t.settings.maxHold > 0 && now.since(t.granted) >= t.settings.maxHold {
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
