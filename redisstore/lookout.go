package redisstore

import (
	"sync"
	"time"
)

// lookout remembers that the servers were looked at and found fit to grant. That
// holds for a while at the most, and only as long as no connection has ended: it
// may be another server since, or the same one started anew.
type lookout struct {
	mu     sync.Mutex
	looked time.Time // when they were last found fit
	losses int       // of connections until then
}

// fresh says whether there was a look lately. With holds 0 it does not age.
func (l *lookout) fresh(c *connection, holds time.Duration) bool {
	losses := c.lossesSoFar()
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.losses == losses && !l.looked.IsZero() && (holds == 0 || time.Since(l.looked) < holds)
}

// found notes a look that began at that moment, after so many losses.
func (l *lookout) found(began time.Time, losses int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.looked, l.losses = began, losses
}
