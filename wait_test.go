package holdfast

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfastlock/holdfast/driver"
	"github.com/holdfastlock/holdfast/memstore"
)

// count has the store count the acquires it is asked for.
func (w *world) count() *atomic.Int32 {
	asked := new(atomic.Int32)
	w.store.SetFault(func(op string) memstore.Fault {
		if op == "acquire" {
			asked.Add(1)
		}
		return memstore.Fault{}
	})
	return asked
}

// acquiring calls Acquire in a goroutine and returns where its outcome comes.
func acquiring(ctx context.Context, l *Locker, name string, opts ...AcquireOption) <-chan acquired {
	done := make(chan acquired, 1)
	go func() {
		lease, err := l.Acquire(ctx, name, opts...)
		done <- acquired{lease, err, time.Now()}
	}()
	return done
}

type acquired struct {
	lease *Lease
	err   error
	at    time.Time
}

func TestAWaiterIsWokenByTheReleaseInAnotherProcess(t *testing.T) {
	inFakeTime(t, func(t *testing.T, w *world) {
		lease := w.acquire(w.locker(Config{}), "report")
		waiter := acquiring(t.Context(), w.locker(Config{}), "report")
		time.Sleep(time.Minute + 7*time.Millisecond)
		released := time.Now()
		if err := lease.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := <-waiter; got.err != nil || !got.at.Equal(released) {
			t.Errorf("%v after the release: %v", got.at.Sub(released), got.err)
		}
	})
}

func TestAWaiterIsToldOfAReleaseJustBeforeItSubscribed(t *testing.T) {
	inFakeTime(t, func(t *testing.T, w *world) {
		lease := w.acquire(w.locker(Config{}), "report")
		store := &lateSubscriber{Store: w.store, Notifier: w.store, before: func() { lease.Release(t.Context()) }}
		l, err := newLocker(store, Config{}, w.now)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close(context.Background())
		began := time.Now()
		if got := <-acquiring(t.Context(), l, "report"); got.err != nil || !got.at.Equal(began) {
			t.Errorf("after %v: %v", got.at.Sub(began), got.err)
		}
	})
}

// lateSubscriber does something just before each subscription.
type lateSubscriber struct {
	driver.Store
	driver.Notifier
	before func()
}

func (s *lateSubscriber) Subscribe(name string) (<-chan struct{}, func()) {
	s.before()
	return s.Notifier.Subscribe(name)
}

// mute is a store that can't notify.
type mute struct{ driver.Store }

func TestWithoutNotificationAWaiterPollsWithGrowingPauses(t *testing.T) {
	inFakeTime(t, func(t *testing.T, w *world) {
		lease := w.acquire(w.locker(Config{}), "report")
		asked := w.count()
		l, err := newLocker(mute{w.store}, Config{}, w.now)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close(context.Background())
		waiter := acquiring(t.Context(), l, "report")
		time.Sleep(time.Minute)
		if n := asked.Load(); n < 240 || n > 500 {
			t.Errorf("asked %d times in a minute", n)
		}
		released := time.Now()
		lease.Release(t.Context())
		if got := <-waiter; got.err != nil || got.at.Sub(released) > slowestPoll {
			t.Errorf("%v after the release: %v", got.at.Sub(released), got.err)
		}
	})
}

func TestWithNotificationAWaiterHardlyAsks(t *testing.T) {
	inFakeTime(t, func(t *testing.T, w *world) {
		w.acquire(w.locker(Config{}), "report", WithTTL(time.Hour))
		asked := w.count()
		ctx, cancel := context.WithCancel(t.Context())
		waiter := acquiring(ctx, w.locker(Config{}), "report")
		time.Sleep(10 * time.Minute)
		if n := asked.Load(); n > 250 {
			t.Errorf("asked %d times in ten minutes", n)
		}
		cancel()
		<-waiter
	})
}

func TestAWaiterTakesOverWhenTheTTLOfACrashedHolderEnds(t *testing.T) {
	inFakeTime(t, func(t *testing.T, w *world) {
		began := time.Now()
		w.acquire(w.locker(Config{}), "report", WithoutKeepAlive()) // and never again
		got := <-acquiring(t.Context(), w.locker(Config{}), "report")
		if after := got.at.Sub(began); got.err != nil || after < 30*time.Second || after > 30*time.Second+expirySlack {
			t.Errorf("after %v: %v", after, got.err)
		}
	})
}

func TestALockOfAnotherProgramIsPolled(t *testing.T) {
	inFakeTime(t, func(t *testing.T, w *world) {
		foreign := driver.AcquireRequest{Name: "report", Token: "some-uuid", TTL: time.Hour}
		if _, err := w.store.Acquire(t.Context(), foreign); err != nil {
			t.Fatal(err)
		}
		waiter := acquiring(t.Context(), w.locker(Config{}), "report")
		time.Sleep(10 * time.Second)
		w.store.Wipe() // it is gone, and nobody is notified
		gone := time.Now()
		if got := <-waiter; got.err != nil || got.at.Sub(gone) > slowestPoll {
			t.Errorf("%v after it was free: %v", got.at.Sub(gone), got.err)
		}
	})
}

func TestMaxWaitEndsWithWhoHoldsIt(t *testing.T) {
	inFakeTime(t, func(t *testing.T, w *world) {
		w.acquire(w.locker(Config{Owner: "host-1/7"}), "report")
		l := w.locker(Config{})
		options := []AcquireOption{WithMaxWait(3 * time.Second)}
		for range 2 { // the same options again: nothing is left over in them
			head, second := acquiring(t.Context(), l, "report", options...), acquiring(t.Context(), l, "report", options...)
			for _, waiter := range []<-chan acquired{head, second} {
				var held *HeldError
				got := <-waiter
				if !errors.As(got.err, &held) || errors.Is(got.err, context.DeadlineExceeded) {
					t.Fatalf("the error is %v", got.err)
				}
				if held.Waited != 3*time.Second || held.Holder.Owner() != "host-1/7" {
					t.Errorf("waited %v for %q", held.Waited, held.Holder.Owner())
				}
			}
		}
	})
}

func TestTheEndOfTheContextEndsAWaitAndStaysVisible(t *testing.T) {
	inFakeTime(t, func(t *testing.T, w *world) {
		w.acquire(w.locker(Config{}), "report")
		l := w.locker(Config{})

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		got := <-acquiring(ctx, l, "report")
		if !errors.Is(got.err, context.DeadlineExceeded) || !errors.Is(got.err, ErrHeld) {
			t.Errorf("past its deadline: %v", got.err)
		}

		ctx, cancel = context.WithCancel(t.Context())
		waiter := acquiring(ctx, l, "report")
		time.Sleep(time.Second)
		cancel()
		got = <-waiter
		if !errors.Is(got.err, context.Canceled) || errors.Is(got.err, ErrHeld) {
			t.Errorf("cancelled: %v", got.err)
		}
		if _, err := l.Acquire(ctx, "free"); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled before: %v", err)
		}
	})
}

func TestTheCallsOfOneProcessAreServedInTheirOrder(t *testing.T) {
	inFakeTime(t, func(t *testing.T, w *world) {
		l := w.locker(Config{})
		lease := w.acquire(l, "report")
		var mu sync.Mutex
		var order []int
		var all sync.WaitGroup
		for i := range 100 {
			all.Go(func() {
				err := l.Do(t.Context(), "report", func(context.Context, *Lease) error {
					mu.Lock()
					defer mu.Unlock()
					order = append(order, i)
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		lease.Release(t.Context())
		all.Wait()
		if len(order) != 100 || !slices.IsSorted(order) {
			t.Errorf("served in the order %v", order)
		}
	})
}

func TestOneGoroutineForEachNameTalksToTheStore(t *testing.T) {
	inFakeTime(t, func(t *testing.T, w *world) {
		w.acquire(w.locker(Config{}), "report")
		asked := w.count()
		l := w.locker(Config{})
		ctx, cancel := context.WithCancel(t.Context())
		var waiters []<-chan acquired
		for range 500 {
			waiters = append(waiters, acquiring(ctx, l, "report"))
		}
		time.Sleep(2 * time.Second)
		if n := asked.Load(); n > 4 {
			t.Errorf("500 waiters asked %d times", n)
		}
		cancel()
		for _, waiter := range waiters {
			<-waiter
		}
	})
}

func TestTenThousandCancelledWaitsLeaveNothing(t *testing.T) {
	inFakeTime(t, func(t *testing.T, w *world) {
		lease := w.acquire(w.locker(Config{}), "report")
		l := w.locker(Config{})
		ctx, cancel := context.WithCancel(t.Context())
		var waiters []<-chan acquired
		for range 10_000 {
			waiters = append(waiters, acquiring(ctx, l, "report"))
		}
		synctest.Wait()
		cancel()
		for _, waiter := range waiters {
			<-waiter
		}
		if n := len(l.queues.byName); n != 0 {
			t.Errorf("%d queues are left", n)
		}
		lease.Release(t.Context())
		time.Sleep(time.Minute)
		if w.holder("report") != "" {
			t.Error("a cancelled wait took the lock")
		}
	})
}

func TestAWaiterOutlastsAShortOutage(t *testing.T) {
	inFakeTime(t, func(t *testing.T, w *world) {
		lease := w.acquire(w.locker(Config{}), "report")
		waiter := acquiring(t.Context(), w.locker(Config{}), "report")
		time.Sleep(time.Second)
		heal := w.fail("", memstore.Fault{Before: errDown})
		time.Sleep(defaultStoreTimeout - time.Millisecond)
		heal()
		lease.Release(t.Context())
		if got := <-waiter; got.err != nil {
			t.Errorf("after the outage: %v", got.err)
		}
	})
}

func TestAWaiterTellsALongOutageFromALockThatIsHeld(t *testing.T) {
	inFakeTime(t, func(t *testing.T, w *world) {
		w.acquire(w.locker(Config{}), "report")
		waiter := acquiring(t.Context(), w.locker(Config{}), "report")
		time.Sleep(time.Second)
		w.fail("", memstore.Fault{Before: errDown})
		if got := <-waiter; !errors.Is(got.err, ErrUnreachable) || errors.Is(got.err, ErrHeld) {
			t.Errorf("the error is %v", got.err)
		}
	})
}

func TestAWaiterWhoseQuestionTimedOutDoesNotSleepOnAFreeName(t *testing.T) {
	inFakeTime(t, func(t *testing.T, w *world) {
		lease := w.acquire(w.locker(Config{}), "report")
		waiter := acquiring(t.Context(), w.locker(Config{}), "report")
		synctest.Wait()
		var questions atomic.Int32
		w.store.SetFault(func(op string) memstore.Fault {
			if op == "acquire" && questions.Add(1) <= 3 {
				return memstore.Fault{Before: errDown}
			}
			return memstore.Fault{}
		})
		released := time.Now()
		lease.Release(t.Context())
		if got := <-waiter; got.err != nil || got.at.Sub(released) > time.Second {
			t.Errorf("%v after the release: %v", got.at.Sub(released), got.err)
		}
	})
}
