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
	tenure *tenure
	fence  int64
	parent context.Context

	// Guarded by the keeper's mutex.
	ctx    context.Context // nil until somebody wants it
	cancel context.CancelCauseFunc
	cause  error // why the context has ended, or is to end when it is made
	phase  phase
	since  instant       // when it got the tenure
	took   time.Duration // from then to its end
	until  time.Time     // its deadline when it ended
	lost   *LostError
	// passed says that another lease has its tenure.
	passed bool

	release  sync.Mutex // one release at a time; guards what follows
	began    bool
	trusted  bool // when the release began
	unheard  bool // a release was sent and not answered
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

// leaseOf returns the lease that has the tenure from now on. Locked by the
// keeper's mutex, unless nobody knows the tenure yet.
func (a *acquisition) leaseOf(t *tenure, fence int64, now instant) *Lease {
	l := &t.first
	if l.tenure != nil {
		l = new(Lease)
	}
	l.tenure, l.fence, l.since, l.parent = t, fence, now, a.parent
	t.lease = l
	return l
}

// stop ends the lease's part in its tenure. Locked by the keeper's mutex.
func (l *Lease) stop(p phase, now instant) {
	l.phase = p
	l.took = now.since(l.since)
	l.until = l.tenure.window.deadline()
	l.tenure.lease = nil
}

// Name returns the name of the lock.
func (l *Lease) Name() string { return l.tenure.name }

// Token returns the secret that proves ownership to the store. Whoever has it
// can release the lock; see Locker.Resume. It is empty for a lease that was
// released and whose place in the store another lease of this Locker has taken
// over; one whose token was asked for before is never handed on like that.
func (l *Lease) Token() string {
	k, t := l.tenure.locker.keeper, l.tenure
	k.mu.Lock()
	defer k.mu.Unlock()
	if l.passed {
		return ""
	}
	t.private = true
	return t.token
}

// Fence returns the fencing token: a number larger than that of every lease of
// this name granted before. A resource that remembers the largest it has seen
// and refuses smaller ones can't be damaged by a holder that was too slow to
// notice its loss. It is 0 for a lease acquired WithoutFence.
func (l *Lease) Fence() int64 { return l.fence }

// Replicated returns how many replicas were known to have the grant when it was
// given: 0 unless the store is configured to wait for some. It says nothing of
// the renewals since.
func (l *Lease) Replicated() int { return l.tenure.replicas }

// Context returns a context that ends when the lease is no longer trusted, with
// a *LostError as its cause, and when it is released. It has the values of the
// context given to Acquire but does not end with that; the context that Do
// passes to its function does.
func (l *Lease) Context() context.Context {
	k := l.tenure.locker.keeper
	k.mu.Lock()
	defer k.mu.Unlock()
	if l.ctx == nil {
		l.ctx, l.cancel = context.WithCancelCause(l.parent)
		if l.cause != nil {
			l.cancel(l.cause)
		}
	}
	return l.ctx
}

// endContext ends the lease's context, unless it has ended.
func (l *Lease) endContext(cause error) {
	k := l.tenure.locker.keeper
	k.mu.Lock()
	if l.cause == nil {
		l.cause = cause
	}
	cancel := l.cancel
	k.mu.Unlock()
	if cancel != nil {
		cancel(cause)
	}
}

// Deadline returns until when the lease is trusted if it is not renewed. It
// moves until the lease ends: ask again when it matters.
func (l *Lease) Deadline() time.Time {
	k := l.tenure.locker.keeper
	k.mu.Lock()
	defer k.mu.Unlock()
	if l.phase != held {
		return l.until
	}
	return l.tenure.window.deadline()
}

// Valid says whether the lease is trusted now and will be for d from now even
// if no renewal succeeds. It asks only this machine's clocks; Confirm asks the
// store.
func (l *Lease) Valid(d time.Duration) bool {
	k := l.tenure.locker.keeper
	k.mu.Lock()
	defer k.mu.Unlock()
	left := l.tenure.window.left(k.now())
	return l.phase == held && left > 0 && left >= d
}

// Confirm asks the store whether it still knows the lease and extends it by its
// TTL: nil means that it did, a *LostError that the lock is lost, and any other
// error that there was no answer, while the deadline stays where it was. For use
// just before a side effect that must not happen without the lock.
func (l *Lease) Confirm(ctx context.Context) error {
	return l.Extend(ctx, l.tenure.settings.ttl)
}

// Extend makes the lease last at least ttl from now; it never shortens it. The
// keep-alive goes on with the lease's own TTL when that becomes due. Errors are
// as those of Confirm.
func (l *Lease) Extend(ctx context.Context, ttl time.Duration) error {
	if ttl < minTTL {
		return misconfigured("TTL %v is shorter than %v", ttl, minTTL)
	}
	t := l.tenure
	k := t.locker.keeper
	left, err := k.standing(l)
	if err != nil {
		return err
	}
	request := []driver.ExtendRequest{{Name: t.name, Token: t.token, TTL: ttl + t.settings.lockDelay}}
	return t.locker.persist(ctx, min(left, t.locker.config.StoreTimeout), func(ctx context.Context) error {
		sent := k.now()
		err := k.settle(t, sent, ttl, t.locker.store.Extend(ctx, request)[0])
		if _, over := k.standing(l); over != nil {
			return over // the answer may have been about the next lease
		}
		return err
	})
}

// Release frees the lock if the lease still holds it, and ends the lease's
// context first. It works although ctx has ended, takes 2 seconds at the most, 3
// where another call of this Locker waits, and may be called again: once the
// store has answered, with the same result; else it is tried once more. A
// *LostError says that the lock was lost before; then nothing was freed that
// belongs to another.
//
// If another call of this Locker waits for the name, the lock may go to that
// call without the store being asked; see Config.NoLocalPassing.
func (l *Lease) Release(ctx context.Context) error {
	l.release.Lock()
	defer l.release.Unlock()
	if l.answered {
		return l.outcome
	}
	t := l.tenure
	k := t.locker.keeper
	if !l.began {
		l.began = true
		if t.locker.queues.pass(l) {
			l.answered = true
			return nil
		}
		l.trusted = k.end(l)
	}
	l.endContext(errReleased)
	answer, relayed, err := l.tellStore(ctx)
	t.locker.queues.freed(t, relayed)
	if err != nil {
		emit(k.events.ReleaseFailed, Event{Name: t.name, Fence: l.fence, Err: err})
		return err
	}
	l.answered = true
	switch {
	case !l.trusted && answer == driver.Mine:
		l.outcome = k.lose(l, t.whyOver(k.now()))
	case !l.trusted, answer != driver.Mine && !l.unheard:
		l.outcome = k.lose(l, reasonOf(answer))
	default: // freed, perhaps by a release of ours that was not answered
		l.emitReleased()
	}
	return l.outcome
}

func (l *Lease) emitReleased() {
	emit(l.tenure.locker.config.Events.Released, Event{Name: l.tenure.name, Fence: l.fence, Took: l.took})
}

// How long a release goes on trying.
const (
	releaseLimit = 2 * time.Second
	// relayLimit is how long it waits for the call behind it to do it.
	relayLimit = time.Second
)

// tellStore ends the tenure at the store, and says whether the call behind it has
// done so.
func (l *Lease) tellStore(ctx context.Context) (answer driver.Answer, relayed bool, err error) {
	if r := l.tenure.locker.queues.relay(l.tenure); r != nil {
		answer, lost := r.wait(relayLimit)
		l.unheard = l.unheard || lost
		if answer != 0 {
			return answer, true, nil
		}
	}
	answer, err = l.sendRelease(ctx)
	return answer, false, err
}

func (l *Lease) sendRelease(ctx context.Context) (answer driver.Answer, err error) {
	t := l.tenure
	request := driver.ReleaseRequest{Name: t.name, Token: t.token}
	if t.doubtful {
		request.Tombstone, request.Inbox = tombstone, t.locker.inbox.address()
	}
	err = insist(context.Background(), t.locker.releases.context(ctx), func(ctx context.Context) error {
		answer, err = t.locker.store.Release(ctx, request)
		l.unheard = l.unheard || driver.Unknown(err)
		return err
	})
	return answer, err
}
