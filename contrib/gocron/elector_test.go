package holdfastgocron

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/holdfastlock/holdfast"
	"github.com/holdfastlock/holdfast/driver"
	"github.com/holdfastlock/holdfast/memstore"
)

func newElector(t *testing.T, locker *holdfast.Locker, failed func(error)) *Elector {
	t.Helper()
	e, err := NewElector(locker, ElectorConfig{Name: "leader", Failed: failed})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close(context.Background()) })
	return e
}

// unexpected fails the test.
func unexpected(t *testing.T) func(error) {
	return func(err error) { t.Errorf("reported as failed: %v", err) }
}

func TestTheHostThatLeadsIsNamedToTheOthers(t *testing.T) {
	inBubble(t, func(t *testing.T, store *memstore.Store) {
		a := newElector(t, newLocker(t, store, "a"), unexpected(t))
		b := newElector(t, newLocker(t, store, "b"), unexpected(t))
		for range 3 {
			if err := a.IsLeader(t.Context()); err != nil {
				t.Error(err)
			}
			time.Sleep(3 * ttl) // kept alive
			var held *holdfast.HeldError
			if err := b.IsLeader(t.Context()); !errors.As(err, &held) || held.Holder.Owner() != "a" {
				t.Error(err)
			}
		}
	})
}

func TestOnlyTheLeaderRunsJobsAndClosingHandsOver(t *testing.T) {
	inBubble(t, func(t *testing.T, store *memstore.Store) {
		var runs [2]atomic.Int32
		var electors [2]*Elector
		for i := range electors {
			electors[i] = newElector(t, newLocker(t, store, "host"), unexpected(t))
			scheduler := newScheduler(t, 0, gocron.WithDistributedElector(electors[i]))
			schedule(t, scheduler, gocron.DurationJob(time.Minute), gocron.NewTask(counted(&runs[i])))
			scheduler.Start()
		}
		if err := electors[0].IsLeader(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5*time.Minute + time.Second)
		if a, b := runs[0].Load(), runs[1].Load(); a != 5 || b != 0 {
			t.Errorf("the leader ran %d, the other %d", a, b)
		}
		if err := electors[0].Close(t.Context()); err != nil {
			t.Error(err)
		}
		time.Sleep(5 * time.Minute)
		if a, b := runs[0].Load(), runs[1].Load(); a != 5 || b != 5 {
			t.Errorf("after the hand-over the first has run %d, the other %d", a, b)
		}
		if err := electors[0].IsLeader(t.Context()); !errors.Is(err, holdfast.ErrClosed) {
			t.Error(err)
		}
	})
}

// TestADeadLeaderIsSucceededAfterItsTTL on each store that hosts can share: the
// dead holder's lease is one that nobody extends.
func TestADeadLeaderIsSucceededAfterItsTTL(t *testing.T) {
	onRealStores(t, func(t *testing.T, connect func() driver.Store) {
		dead, err := newLocker(t, connect(), "dead").TryAcquire(t.Context(), "leader", holdfast.WithoutKeepAlive(), holdfast.WithTTL(time.Second))
		if err != nil {
			t.Fatal(err)
		}
		successor := newElector(t, newLocker(t, connect(), "b"), unexpected(t))
		var held *holdfast.HeldError
		if err := successor.IsLeader(t.Context()); !errors.As(err, &held) || held.Holder.Owner() != "dead" {
			t.Error(err)
		}
		waitUntil(t, func() bool {
			// Read first: the lease may end between the two.
			alive := dead.Valid(0)
			leads := successor.IsLeader(t.Context()) == nil
			if alive && leads && dead.Valid(0) {
				t.Error("two lead")
			}
			return leads
		})
		if lease, err := successor.Lease(t.Context()); err != nil || lease.Fence() <= dead.Fence() {
			t.Errorf("fence %d after %d, %v", lease.Fence(), dead.Fence(), err)
		}
	})
}

func TestALossEndsLeadershipAtOnceAndIsReported(t *testing.T) {
	inBubble(t, func(t *testing.T, store *memstore.Store) {
		failed := make(chan error, 10)
		a := newElector(t, newLocker(t, store, "a"), func(err error) { failed <- err })
		lease, err := a.Lease(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		failing(store, "extend", "acquire")
		<-lease.Context().Done()
		if err := a.IsLeader(t.Context()); !errors.Is(err, holdfast.ErrUnreachable) {
			t.Error(err)
		}
		synctest.Wait()
		if len(failed) != 2 || !errors.Is(<-failed, holdfast.ErrLost) || !errors.Is(<-failed, holdfast.ErrUnreachable) {
			t.Error("reported otherwise")
		}
		failing(store)
		time.Sleep(ttl)
		b := newElector(t, newLocker(t, store, "b"), unexpected(t))
		if err := b.IsLeader(t.Context()); err != nil {
			t.Error(err)
		}
		if err := a.IsLeader(t.Context()); !errors.Is(err, holdfast.ErrHeld) {
			t.Error(err)
		}
	})
}

// TestManyJobsThatAskAtOnceMakeOneAttempt: else they would wait for a store that
// is down one after another.
func TestManyJobsThatAskAtOnceMakeOneAttempt(t *testing.T) {
	inBubble(t, func(t *testing.T, store *memstore.Store) {
		var failures atomic.Int32
		a := newElector(t, newLocker(t, store, "a"), func(error) { failures.Add(1) })
		ask := func(want error) {
			var jobs sync.WaitGroup
			for range 20 {
				jobs.Go(func() {
					if err := a.IsLeader(t.Context()); !errors.Is(err, want) {
						t.Error(err)
					}
				})
			}
			jobs.Wait()
		}
		failing(store, "acquire")
		ask(holdfast.ErrUnreachable)
		if failures.Load() != 1 {
			t.Errorf("%d attempts", failures.Load())
		}
		failing(store)
		ask(nil)
	})
}

func TestAskingEndsWithItsContextAndClosingEndsTheAttempt(t *testing.T) {
	inBubble(t, func(t *testing.T, store *memstore.Store) {
		a := newElector(t, newLocker(t, store, "a"), unexpected(t))
		failing(store, "acquire")
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := a.IsLeader(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if err := a.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestClosingWaitsForTheAttemptThatIsUnderWay: its grant arrives after Close was
// called, and must not keep the name.
func TestClosingWaitsForTheAttemptThatIsUnderWay(t *testing.T) {
	inBubble(t, func(t *testing.T, store *memstore.Store) {
		locker := newLocker(t, store, "a")
		a := newElector(t, locker, unexpected(t))
		answer := make(chan struct{})
		store.SetFault(func(op string) memstore.Fault {
			if op == "acquire" {
				<-answer
			}
			return memstore.Fault{}
		})
		go a.IsLeader(t.Context())
		synctest.Wait()
		go a.Close(t.Context())
		synctest.Wait()
		close(answer)
		synctest.Wait()
		if state, err := locker.Inspect(t.Context(), "leader"); err != nil || len(state.Holders) != 0 {
			t.Errorf("%+v, %v", state, err)
		}
	})
}

func TestAnAttemptAfterOneThatSucceededHasItsLease(t *testing.T) {
	inBubble(t, func(t *testing.T, store *memstore.Store) {
		a := newElector(t, newLocker(t, store, "a"), unexpected(t))
		first, err := a.stand()
		if again, errAgain := a.stand(); err != nil || errAgain != nil || first != again {
			t.Errorf("%v, %v", err, errAgain)
		}
	})
}

func TestANameThatCannotBeThatOfALockIsRefused(t *testing.T) {
	var refused *driver.NameError
	if _, err := NewElector(nil, ElectorConfig{}); !errors.As(err, &refused) {
		t.Error(err)
	}
}
