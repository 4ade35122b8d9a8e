package holdfast

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfastlock/holdfast/driver"
	"github.com/holdfastlock/holdfast/memstore"
)

// queued has calls of one process wait for a name, in this order, and returns
// where their outcomes come.
func queued(ctx context.Context, l *Locker, n int, opts ...AcquireOption) []<-chan acquired {
	var waiters []<-chan acquired
	for range n {
		waiters = append(waiters, acquiring(ctx, l, "report", opts...))
		synctest.Wait()
	}
	return waiters
}

func TestALeaseIsPassedOnWithoutTheStore(t *testing.T) {
	inFakeTime(t, func(t *testing.T, w *world) {
		l := w.locker(Config{})
		lease := w.acquire(l, "report")
		waiters := queued(t.Context(), l, 15)
		asked := w.count()
		w.fail("release", memstore.Fault{Before: errors.New("the store was told of a release")})
		for _, waiter := range waiters {
			before := lease
			if err := before.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
			got := <-waiter
			if got.err != nil || before.Context().Err() == nil || before.Valid(0) {
				t.Fatalf("the next got %v, the one before is valid %v", got.err, before.Valid(0))
			}
			lease = got.lease
			if lease.Fence() != before.Fence()+1 || !lease.Valid(0) {
				t.Errorf("fence %d after %d, valid %v", lease.Fence(), before.Fence(), lease.Valid(0))
			}
		}
		if n := asked.Load(); n != 0 {
			t.Errorf("the store was asked %d times", n)
		}
		w.store.SetFault(nil)
	})
}

func TestAfterSixteenLeasesOtherProcessesHaveTheirTurn(t *testing.T) {
	inFakeTime(t, func(t *testing.T, w *world) {
		l := w.locker(Config{})
		lease := w.acquire(l, "report")
		waiters := queued(t.Context(), l, 20)
		other := acquiring(t.Context(), w.locker(Config{}), "report")
		synctest.Wait()
		for _, waiter := range waiters[:fenceBlock-1] {
			lease.Release(t.Context())
			lease = (<-waiter).lease
		}
		last := lease.Fence()
		lease.Release(t.Context())
		synctest.Wait()
		select {
		case got := <-other:
			if got.err != nil || got.lease.Fence() <= last {
				t.Errorf("fence %d after %d, %v", got.lease.Fence(), last, got.err)
			}
			got.lease.Release(t.Context())
		case got := <-waiters[fenceBlock-1]:
			if got.err != nil || got.lease.Fence() <= last || got.lease.tenure == lease.tenure {
				t.Errorf("fence %d after %d, %v", got.lease.Fence(), last, got.err)
			}
		}
	})
}

// costly is a store that says how many leases a grant of it is worth.
type costly struct {
	driver.Store
	leases int
}

func (c costly) Capabilities() driver.Capabilities { return driver.Capabilities{Leases: c.leases} }

func TestAStoreSaysHowManyLeasesAGrantIsWorth(t *testing.T) {
	inFakeTime(t, func(t *testing.T, w *world) {
		const leases = 2 * fenceBlock
		l, err := New(costly{memstore.New(), leases}, Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close(t.Context())
		lease := w.acquire(l, "report")
		waiters := queued(t.Context(), l, leases)
		first := lease.tenure
		for i, waiter := range waiters {
			lease.Release(t.Context())
			got := <-waiter
			if got.err != nil || (got.lease.tenure == first) != (i < leases-1) {
				t.Fatalf("pass %d: %v, of the same grant %v", i+1, got.err, got.lease.tenure == first)
			}
			lease = got.lease
		}
		lease.Release(t.Context())
	})
}

func TestALongHeldTenureIsNotPassedOn(t *testing.T) {
	inFakeTime(t, func(t *testing.T, w *world) {
		l := w.locker(Config{})
		lease := w.acquire(l, "report")
		waiter := queued(t.Context(), l, 1)[0]
		time.Sleep(passFor)
		lease.Release(t.Context())
		if got := <-waiter; got.err != nil || got.lease.tenure == lease.tenure {
			t.Errorf("it was passed on, %v", got.err)
		}
	})
}

func TestAPassDoesNotMoveTheDeadline(t *testing.T) {
	inFakeTime(t, func(t *testing.T, w *world) {
		l := w.locker(Config{})
		lease := w.acquire(l, "report", WithoutKeepAlive())
		waiter := queued(t.Context(), l, 1, WithoutKeepAlive())[0]
		time.Sleep(passFor - time.Millisecond)
		deadline := lease.Deadline()
		lease.Release(t.Context())
		next := (<-waiter).lease
		if !next.Deadline().Equal(deadline) || !lease.Deadline().Equal(deadline) {
			t.Errorf("the deadline moved by %v", next.Deadline().Sub(deadline))
		}
		<-next.Context().Done()
		if now := time.Now(); !now.Equal(deadline) {
			t.Errorf("its context ended %v after the deadline", now.Sub(deadline))
		}
		wantLost(t, context.Cause(next.Context()), LostExpired)
		if cause := context.Cause(lease.Context()); !errors.Is(cause, errReleased) {
			t.Errorf("the one that was released has ended because of %v", cause)
		}
	})
}

func TestATenureThatIsOverIsNotPassedOn(t *testing.T) {
	inFakeTime(t, func(t *testing.T, w *world) {
		l := w.locker(Config{})
		lease := w.acquire(l, "report", WithTTL(minTTL), WithoutKeepAlive())
		waiter := queued(t.Context(), l, 1, WithTTL(minTTL), WithoutKeepAlive())[0]
		w.suspended.Add(int64(minTTL)) // no timer has noticed
		wantLost(t, lease.Release(t.Context()), LostExpired)
		if got := <-waiter; got.err != nil || got.lease.tenure == lease.tenure {
			t.Errorf("it was passed on, %v", got.err)
		}
	})
}

func TestWhatIsPassedOnIsTrusted(t *testing.T) {
	if shortest := trusted(minTTL); passFor >= shortest {
		t.Errorf("a tenure is passed on for %v, and trusted for %v only", passFor, shortest)
	}
}

func TestALeaseIsNotPassedOnToACallThatAsksTheStore(t *testing.T) {
	inFakeTime(t, func(t *testing.T, w *world) {
		other := w.acquire(w.locker(Config{}), "report")
		l, err := newLocker(mute{w.store}, Config{}, w.now)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close(context.Background())
		head := queued(t.Context(), l, 1)[0]
		other.Release(t.Context()) // the head does not hear of it
		lease := w.acquire(l, "report")
		released := time.Now()
		lease.Release(t.Context())
		if got := <-head; got.err != nil || got.at.Sub(released) > slowestPoll {
			t.Errorf("%v after the release: %v", got.at.Sub(released), got.err)
		}
	})
}

func TestAReleaseAfterThePassDoesNothing(t *testing.T) {
	inFakeTime(t, func(t *testing.T, w *world) {
		l := w.locker(Config{})
		lease := w.acquire(l, "report")
		waiter := queued(t.Context(), l, 1)[0]
		lease.Release(t.Context())
		next := (<-waiter).lease
		if err := lease.Release(t.Context()); err != nil {
			t.Error(err)
		}
		if err := lease.Confirm(t.Context()); !errors.Is(err, errReleased) {
			t.Errorf("Confirm says %v", err)
		}
		if !next.Valid(0) || w.holder("report") != next.Token() || lease.Token() != "" {
			t.Error("the next has lost it, or the one before has its token")
		}
	})
}

func TestALeaseWhoseTokenWasAskedForIsNotPassedOn(t *testing.T) {
	inFakeTime(t, func(t *testing.T, w *world) {
		l := w.locker(Config{})
		lease := w.acquire(l, "report")
		token := lease.Token()
		waiter := queued(t.Context(), l, 1)[0]
		lease.Release(t.Context())
		if next := (<-waiter).lease; next.Token() == token {
			t.Error("the next has the same token")
		}
	})
}

func TestALeaseIsNotPassedOnToACallThatWantsAnother(t *testing.T) {
	for name, opts := range map[string][]AcquireOption{
		"TTL":      {WithTTL(time.Minute)},
		"purpose":  {WithPurpose("another")},
		"max hold": {WithMaxHold(time.Hour)},
		"no fence": {WithoutFence()},
	} {
		t.Run(name, func(t *testing.T) {
			inFakeTime(t, func(t *testing.T, w *world) {
				l := w.locker(Config{})
				lease := w.acquire(l, "report")
				waiter := queued(t.Context(), l, 1, opts...)[0]
				lease.Release(t.Context())
				if got := <-waiter; got.err != nil || got.lease.tenure == lease.tenure {
					t.Errorf("it was passed on, %v", got.err)
				}
			})
		})
	}
}

func TestWithNoLocalPassingEveryReleaseIsTold(t *testing.T) {
	inFakeTime(t, func(t *testing.T, w *world) {
		l := w.locker(Config{NoLocalPassing: true})
		lease := w.acquire(l, "report")
		waiter := queued(t.Context(), l, 1)[0]
		lease.Release(t.Context())
		if got := <-waiter; got.err != nil || got.lease.tenure == lease.tenure {
			t.Errorf("it was passed on, %v", got.err)
		}
	})
}

func TestTheLossOfATenureEndsTheLeaseThatHasIt(t *testing.T) {
	inFakeTime(t, func(t *testing.T, w *world) {
		l := w.locker(Config{})
		lease := w.acquire(l, "report")
		waiters := queued(t.Context(), l, 2)
		lease.Release(t.Context())
		next := (<-waiters[0]).lease
		w.store.Wipe()
		wantLost(t, next.Confirm(t.Context()), LostGone)
		if got := <-waiters[1]; got.err != nil || got.lease.Fence() <= next.Fence() {
			t.Errorf("the one behind got %v", got.err)
		}
	})
}

func TestAnAnswerToTheLeaseBeforeIsForTheOneThatHasIt(t *testing.T) {
	inFakeTime(t, func(t *testing.T, w *world) {
		store := &slowExtends{Store: w.store, begun: make(chan struct{}), goOn: make(chan struct{})}
		l, err := newLocker(store, Config{}, w.now)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close(context.Background())
		lease := w.acquire(l, "report")
		waiter := queued(t.Context(), l, 1)[0]
		confirmed := make(chan error, 1)
		go func() { confirmed <- lease.Confirm(t.Context()) }()
		<-store.begun
		lease.Release(t.Context())
		next := (<-waiter).lease
		w.store.Wipe()
		close(store.goOn)
		if err := <-confirmed; !errors.Is(err, errReleased) {
			t.Errorf("the one that was released is told %v", err)
		}
		wantLost(t, context.Cause(next.Context()), LostGone)
	})
}

// slowExtends is a store whose extensions wait.
type slowExtends struct {
	*memstore.Store
	begun, goOn chan struct{}
}

func (s *slowExtends) Extend(ctx context.Context, reqs []driver.ExtendRequest) []driver.ExtendResult {
	close(s.begun)
	<-s.goOn
	return s.Store.Extend(ctx, reqs)
}

func TestCallsThatGiveUpAsTheyArePassedALeaseLeaveNothing(t *testing.T) {
	inFakeTime(t, func(t *testing.T, w *world) {
		l := w.locker(Config{})
		var inside, most, had atomic.Int32
		var all sync.WaitGroup
		for i := range 2000 {
			all.Go(func() {
				// Both take from 0 to 999 µs, so that many ends meet a pass.
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i*7919%1000)*time.Microsecond)
				defer cancel()
				lease, err := l.Acquire(ctx, "report")
				if err != nil {
					return
				}
				had.Add(1)
				most.Store(max(most.Load(), inside.Add(1)))
				time.Sleep(time.Duration(i*104729%20) * time.Microsecond)
				inside.Add(-1)
				if err := lease.Release(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if most.Load() != 1 || had.Load() < 20 {
			t.Errorf("%d held it, %d at once", had.Load(), most.Load())
		}
		synctest.Wait()
		if n := len(l.queues.byName); n != 0 || w.holder("report") != "" {
			t.Errorf("%d queues are left, the holder is %q", n, w.holder("report"))
		}
	})
}
