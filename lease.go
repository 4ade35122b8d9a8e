package holdfast

import (
	"context"
	"sync"
	"time"

	"github.com/holdfastlock/holdfast/driver"
)

// Lease is one holding of a lock. It is trusted until its Deadline, which the
// keep-alive moves forward while renewals succeed; its Context ends when it is
// no longer trusted, or was released. A Lease is safe for concurrent use.
type Lease struct {
	locker   *Locker
	name     string
	token    string
	fence    int64
	settings settings
	granted  instant // when the request that was granted was sent
	// doubtful says that another request with this token may still be on its
	// way to the store: the release must leave a tombstone.
	doubtful bool
	ctx      context.Context
	cancel   context.CancelCauseFunc

	// Guarded by the keeper's mutex.
	phase   phase
	window  window
	lost    *LostError
	failure error // of the last renewal
	sending bool  // a renewal is under way
	due     time.Time
	index   int // in the schedule; -1 outside

	release  sync.Mutex // one release at a time; guards what follows
	began    bool
	trusted  bool          // when the release began
	took     time.Duration // from the grant to then
	unheard  bool          // a release was sent and not answered
	answered bool
	outcome  error // of the release, once answered
}

// phase is where a lease is in its life.
type phase int

const (
	held  phase = iota
	lost        // ended by itself
	ended       // ended by a release
)

// Name returns the name of the lock.
func (l *Lease) Name() string { return l.name }

// Token returns the secret that proves ownership to the store. Whoever has it
// can release the lock; see Locker.Resume.
func (l *Lease) Token() string { return l.token }

// Fence returns the fencing token: a number larger than that of every lease of
// this name granted before. A resource that remembers the largest it has seen
// and refuses smaller ones can't be damaged by a holder that was too slow to
// notice its loss. It is 0 for a lease acquired WithoutFence.
func (l *Lease) Fence() int64 { return l.fence }

// Context returns a context that ends when the lease is no longer trusted, with
// a *LostError as its cause, and when it is released. It has the values of the
// context given to Acquire but does not end with that; the context that Do
// passes to its function does.
func (l *Lease) Context() context.Context { return l.ctx }

// Deadline returns until when the lease is trusted if it is not renewed. It
// moves: ask again when it matters.
func (l *Lease) Deadline() time.Time {
	l.locker.keeper.mu.Lock()
	defer l.locker.keeper.mu.Unlock()
	return l.window.deadline()
}

// Valid says whether the lease is trusted now and will be for d from now even
// if no renewal succeeds. It asks only this machine's clocks; Confirm asks the
// store.
func (l *Lease) Valid(d time.Duration) bool {
	k := l.locker.keeper
	k.mu.Lock()
	defer k.mu.Unlock()
	left := l.window.left(k.now())
	return l.phase == held && left > 0 && left >= d
}

// Confirm asks the store whether it still knows the lease and extends it by its
// TTL: nil means that it did, a *LostError that the lock is lost, and any other
// error that there was no answer, while the deadline stays where it was. For use
// just before a side effect that must not happen without the lock.
func (l *Lease) Confirm(ctx context.Context) error {
	return l.Extend(ctx, l.settings.ttl)
}

// Extend makes the lease last at least ttl from now; it never shortens it. The
// keep-alive goes on with the lease's own TTL when that becomes due. Errors are
// as those of Confirm.
func (l *Lease) Extend(ctx context.Context, ttl time.Duration) error {
	if ttl < minTTL {
		return misconfigured("TTL %v is shorter than %v", ttl, minTTL)
	}
	k := l.locker.keeper
	left, err := k.standing(l)
	if err != nil {
		return err
	}
	request := []driver.ExtendRequest{{Name: l.name, Token: l.token, TTL: ttl + l.settings.lockDelay}}
	return l.locker.persist(ctx, min(left, l.locker.config.StoreTimeout), func(ctx context.Context) error {
		sent := k.now()
		return k.settle(l, sent, ttl, l.locker.store.Extend(ctx, request)[0])
	})
}

// Release frees the lock if the lease still holds it, and ends the lease's
// context first. It works although ctx has ended, takes 2 seconds at the most,
// and may be called again: once the store has answered, with the same result;
// else it is tried once more. A *LostError says that the lock was lost before;
// then nothing was freed that belongs to another.
func (l *Lease) Release(ctx context.Context) error {
	l.release.Lock()
	defer l.release.Unlock()
	if l.answered {
		return l.outcome
	}
	k := l.locker.keeper
	if !l.began {
		l.began = true
		l.trusted, l.took = k.end(l)
	}
	l.cancel(errReleased)
	answer, err := l.sendRelease(ctx)
	if err != nil {
		emit(k.events.ReleaseFailed, Event{Name: l.name, Fence: l.fence, Err: err})
		return err
	}
	l.answered = true
	l.locker.queues.wake(l.name)
	switch {
	case !l.trusted && answer == driver.Mine:
		l.outcome = k.lose(l, l.whyOver(k.now()))
	case !l.trusted, answer != driver.Mine && !l.unheard:
		l.outcome = k.lose(l, reasonOf(answer))
	default: // freed, perhaps by a release of ours that was not answered
		emit(k.events.Released, Event{Name: l.name, Fence: l.fence, Took: l.took})
	}
	return l.outcome
}

// releaseLimit is how long a release goes on trying.
const releaseLimit = 2 * time.Second

func (l *Lease) sendRelease(ctx context.Context) (answer driver.Answer, err error) {
	request := driver.ReleaseRequest{Name: l.name, Token: l.token}
	if l.doubtful {
		request.Tombstone = tombstone
	}
	limit := min(releaseLimit, l.locker.config.StoreTimeout)
	err = l.locker.persist(context.WithoutCancel(ctx), limit, func(ctx context.Context) error {
		answer, err = l.locker.store.Release(ctx, request)
		l.unheard = l.unheard || driver.Unknown(err)
		return err
	})
	return answer, err
}
