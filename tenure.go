package holdfast

import "time"

// How far a tenure is passed on inside a process before others have their turn.
const (
	// fenceBlock is how many fencing tokens a grant reserves, unless the store says
	// otherwise: one for the lease that was granted, one for each that it is passed
	// on to.
	fenceBlock = 16
	// passFor is how long after its grant a tenure is still passed on. Longer
	// would make other processes wait; shorter would cost a round trip more
	// often than it takes. It is shorter than any lease is trusted, so that what
	// is passed on is always trusted.
	passFor = 5 * time.Millisecond
)

// tenure is one holding of a name as the store knows it: one token, one
// deadline. The leases that have it one after another, inside this process, are
// views of it: what is renewed, over or lost is so for the lease that has it
// then.
type tenure struct {
	locker   *Locker
	name     string
	token    string
	settings settings
	granted  instant // when the request that was granted was sent
	replicas int     // that are known to have the grant
	// doubtful says that another request with this token may still be on its
	// way to the store: the release must leave a tombstone.
	doubtful bool
	first    Lease // here, since most tenures have no other

	// Guarded by the keeper's mutex.
	lease   *Lease // that has it; nil when the tenure has ended
	spare   int    // leases that it may yet be passed on to
	private bool   // its token was asked for
	window  window
	failure error // of the last renewal
	why     error // what the store knows of how the name came to be gone
	sending bool  // a renewal is under way
	due     time.Time
	index   int // in the schedule; -1 outside
}

// passable says whether the lease may pass its tenure on. Locked by the keeper's
// mutex.
func (t *tenure) passable(now instant) bool {
	return t.spare > 0 && !t.private && now.since(t.granted) < passFor
}

// pass ends a lease and returns the one that has its tenure from now on, which
// belongs to the acquisition; or nil if the tenure can't be passed on. The
// deadline stays where it is.
func (k *keeper) pass(l *Lease, to *acquisition) *Lease {
	k.mu.Lock()
	defer k.mu.Unlock()
	t, now := l.tenure, k.now()
	if k.closed || l.phase != held || !t.passable(now) {
		return nil
	}
	l.stop(ended, now)
	l.passed = true
	t.spare--
	fence := l.fence
	if t.settings.fence {
		fence++
	}
	return to.leaseOf(t, fence, now)
}

// holder describes the tenure to those who wait for its end.
func (t *tenure) holder() Holder {
	k := t.locker.keeper
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.now()
	h := Holder{
		Token: t.token, Age: now.since(t.granted), Purpose: t.settings.purpose,
		Left: max(t.window.left(now), 0),
	}
	if t.lease != nil {
		h.Fence = t.lease.fence
	}
	return h
}
