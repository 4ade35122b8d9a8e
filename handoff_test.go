package holdfast

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfastlock/holdfast/driver"
	"github.com/holdfastlock/holdfast/memstore"
)

// lockers returns as many processes.
func (w *world) lockers(n int, config Config) []*Locker {
	w.t.Helper()
	var lockers []*Locker
	for range n {
		lockers = append(lockers, w.locker(config))
	}
	return lockers
}

// line has one call of each process wait, in this order.
func line(ctx context.Context, lockers []*Locker) []<-chan acquired {
	var waiters []<-chan acquired
	for _, l := range lockers {
		waiters = append(waiters, queued(ctx, l, 1)...)
	}
	return waiters
}

// requests has the store count what it is asked, but for the renewals.
func (w *world) requests() *atomic.Int32 {
	asked := new(atomic.Int32)
	w.store.SetFault(func(op string) memstore.Fault {
		if op == "acquire" || op == "enqueue" || op == "release" {
			asked.Add(1)
		}
		return memstore.Fault{}
	})
	return asked
}

func TestProcessesAreServedInTheirOrder(t *testing.T) {
	inFakeTime(t, func(t *testing.T, w *world) {
		lease := w.acquire(w.locker(Config{}), "report")
		waiters := line(t.Context(), w.lockers(20, Config{}))
		for i, waiter := range waiters {
			released := time.Now()
			lease.Release(t.Context())
			got := <-waiter // another's turn would block for ever
			if got.err != nil || !got.at.Equal(released) || got.lease.Fence() <= lease.Fence() {
				t.Fatalf("waiter %d, %v after the release: fence %d after %d, %v", i, got.at.Sub(released), got.lease.Fence(), lease.Fence(), got.err)
			}
			lease = got.lease
		}
	})
}

func TestAHandOffCostsTheSameWithAThousandWaiters(t *testing.T) {
	for _, waiting := range []int{1, 1000} {
		inFakeTime(t, func(t *testing.T, w *world) {
			lease := w.acquire(w.locker(Config{}), "report")
			waiters := line(t.Context(), w.lockers(waiting, Config{}))
			asked := w.requests()
			lease.Release(t.Context())
			got := <-waiters[0]
			synctest.Wait()
			if n := asked.Load(); got.err != nil || n != 2 {
				t.Errorf("with %d waiters: %d requests, %v", waiting, n, got.err)
			}
			got.lease.Release(t.Context())
			for _, waiter := range waiters[1:] {
				got := <-waiter
				if got.err != nil {
					t.Fatal(got.err)
				}
				got.lease.Release(t.Context())
			}
		})
	}
}

func TestAReleaseAndTheNextPlaceOfTheProcessAreOneRequest(t *testing.T) {
	inFakeTime(t, func(t *testing.T, w *world) {
		l := w.locker(Config{NoLocalPassing: true})
		lease := w.acquire(l, "report")
		waiters := queued(t.Context(), l, 10)
		asked := w.requests()
		for _, waiter := range waiters {
			if err := lease.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
			got := <-waiter
			if got.err != nil {
				t.Fatal(got.err)
			}
			lease = got.lease
		}
		if n := asked.Load(); n != 10 {
			t.Errorf("%d requests for 10 leases", n)
		}
	})
}

func TestALeaseCostsTwoRequestsWhileProcessesTakeTurns(t *testing.T) {
	inFakeTime(t, func(t *testing.T, w *world) {
		const each = 20
		lease := w.acquire(w.locker(Config{}), "report")
		lockers := w.lockers(3, Config{NoLocalPassing: true})
		var all sync.WaitGroup
		for _, l := range lockers {
			for range each {
				all.Go(func() {
					err := l.Do(t.Context(), "report", func(context.Context, *Lease) error {
						time.Sleep(time.Millisecond)
						return nil
					})
					if err != nil {
						t.Error(err)
					}
				})
			}
		}
		synctest.Wait()
		asked := w.requests()
		lease.Release(t.Context())
		all.Wait()
		leases := int32(len(lockers) * each)
		if n := asked.Load(); n > 2*leases+1 {
			t.Errorf("%d requests for %d leases", n, leases)
		}
	})
}

func TestAProcessWithOneCallNeedsThreeRequestsForALease(t *testing.T) {
	inFakeTime(t, func(t *testing.T, w *world) {
		holder, lockers := w.locker(Config{}), w.lockers(20, Config{})
		asked := w.requests()
		for range 2 { // the first time they have no inbox yet
			lease := w.acquire(holder, "report")
			asked.Store(0)
			for _, waiter := range line(t.Context(), lockers) {
				lease.Release(t.Context())
				lease = (<-waiter).lease
			}
			lease.Release(t.Context())
		}
		if n := asked.Load(); n != 3*int32(len(lockers))+1 {
			t.Errorf("%d requests for %d leases", n, len(lockers))
		}
	})
}

func TestAReleaseReachesTheStoreAlthoughTheCallBehindItGivesUp(t *testing.T) {
	inFakeTime(t, func(t *testing.T, w *world) {
		l := w.locker(Config{NoLocalPassing: true})
		lease := w.acquire(l, "report")
		ctx, cancel := context.WithCancel(t.Context())
		waiter := queued(ctx, l, 1)[0]
		w.fail("enqueue", memstore.Fault{Before: errDown})
		time.AfterFunc(100*time.Millisecond, cancel)
		gaveUp := time.Now().Add(100 * time.Millisecond)
		if err := lease.Release(t.Context()); err != nil || !time.Now().Equal(gaveUp) {
			t.Errorf("%v after the call behind it gave up: %v", time.Since(gaveUp), err)
		}
		if got := <-waiter; !errors.Is(got.err, context.Canceled) {
			t.Errorf("the call behind it got %v", got.err)
		}
		synctest.Wait()
		if holder := w.holder("report"); holder != "" {
			t.Errorf("it is held by %s", holder)
		}
	})
}

func TestAReleaseWhoseAnswerWasLostIsNoLoss(t *testing.T) {
	inFakeTime(t, func(t *testing.T, w *world) {
		l := w.locker(Config{NoLocalPassing: true})
		lease := w.acquire(l, "report")
		waiter := queued(t.Context(), l, 1)[0]
		var lost atomic.Bool
		w.store.SetFault(func(op string) memstore.Fault {
			if op == "enqueue" && !lost.Swap(true) {
				return memstore.Fault{After: errDown}
			}
			return memstore.Fault{}
		})
		if err := lease.Release(t.Context()); err != nil {
			t.Error(err)
		}
		if got := <-waiter; got.err != nil || !lost.Load() {
			t.Errorf("the call behind it got %v", got.err)
		}
	})
}

// TestAMessageIsOnlyAHint: what it says may be over.
func TestAMessageIsOnlyAHint(t *testing.T) {
	inFakeTime(t, func(t *testing.T, w *world) {
		w.acquire(w.locker(Config{}), "report")
		l := w.locker(Config{})
		waiter := queued(t.Context(), l, 1)[0]
		for token := range l.inbox.expected {
			l.inbox.handed(driver.HandOff{Name: "report", Token: token})
		}
		synctest.Wait()
		select {
		case got := <-waiter:
			t.Errorf("it believes a message: %v", got.err)
		default:
		}
	})
}

func TestALostMessageCostsAWaitUntilTheTTL(t *testing.T) {
	inFakeTime(t, func(t *testing.T, w *world) {
		lease := w.acquire(w.locker(Config{}), "report")
		waiters := line(t.Context(), w.lockers(3, Config{}))
		w.fail("handoff", memstore.Fault{Before: errDown})
		released := time.Now()
		lease.Release(t.Context())
		outcomes := merged(waiters)
		for range waiters {
			got := <-outcomes
			if late := got.at.Sub(released); got.err != nil || late > defaultTTL+driver.Claim+time.Second {
				t.Errorf("%v after the release: %v", late, got.err)
			}
			released = time.Now()
			got.lease.Release(t.Context())
		}
	})
}

// merged returns one channel for the outcomes of all calls.
func merged(waiters []<-chan acquired) <-chan acquired {
	all := make(chan acquired, len(waiters))
	for _, waiter := range waiters {
		go func() { all <- <-waiter }()
	}
	return all
}

func TestARestoredInboxAsksAgain(t *testing.T) {
	inFakeTime(t, func(t *testing.T, w *world) {
		lease := w.acquire(w.locker(Config{}), "report")
		waiter := line(t.Context(), w.lockers(1, Config{}))[0]
		restore := w.store.CutInboxes()
		lease.Release(t.Context()) // the waiter loses its place
		synctest.Wait()
		restored := time.Now()
		restore()
		if got := <-waiter; got.err != nil || !got.at.Equal(restored) {
			t.Errorf("%v after the connection was back: %v", got.at.Sub(restored), got.err)
		}
	})
}

func TestWithHolderAndHeadDeadTheNextGoesAheadByItself(t *testing.T) {
	inFakeTime(t, func(t *testing.T, w *world) {
		w.acquire(w.locker(Config{}), "report", WithoutKeepAlive()) // and never again
		dead := driver.QueueRequest{Inbox: w.store.OpenInbox(driver.Listener{
			Handed: func(driver.HandOff) {}, Restored: func() {},
		}).Address(), Keep: time.Hour}
		dead.Name, dead.Token, dead.TTL = "report", driver.NewToken("dead"), time.Minute
		if _, err := w.store.Enqueue(t.Context(), dead); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		got := <-line(t.Context(), w.lockers(1, Config{}))[0]
		if after := got.at.Sub(began); got.err != nil || after > defaultTTL+2*driver.Claim+time.Second {
			t.Errorf("after %v: %v", after, got.err)
		}
	})
}

func TestANameHandedToACallThatHasGoneGoesOnAtOnce(t *testing.T) {
	inFakeTime(t, func(t *testing.T, w *world) {
		lease := w.acquire(w.locker(Config{}), "report")
		lockers := w.lockers(2, Config{})
		waiters := line(t.Context(), lockers)
		lockers[0].inbox.mu.Lock()
		clear(lockers[0].inbox.expected) // as if its call had gone, and its leave were lost
		lockers[0].inbox.mu.Unlock()
		released := time.Now()
		lease.Release(t.Context())
		if got := <-waiters[1]; got.err != nil || !got.at.Equal(released) {
			t.Errorf("%v after the release: %v", got.at.Sub(released), got.err)
		}
	})
}

func TestAMessageForALeaseThatIsHeldReleasesNothing(t *testing.T) {
	inFakeTime(t, func(t *testing.T, w *world) {
		lease := w.acquire(w.locker(Config{}), "report")
		l := w.locker(Config{})
		waiter := queued(t.Context(), l, 1)[0]
		lease.Release(t.Context())
		held := (<-waiter).lease
		l.inbox.handed(driver.HandOff{Name: "report", Token: held.Token()}) // late
		synctest.Wait()
		if w.holder("report") != held.Token() {
			t.Error("the lease was released")
		}
	})
}

func TestAHundredWaitersOutliveALossOfAllData(t *testing.T) {
	inFakeTime(t, func(t *testing.T, w *world) {
		w.acquire(w.locker(Config{}), "report")
		waiters := line(t.Context(), w.lockers(100, Config{}))
		w.store.Wipe()
		wiped := time.Now()
		outcomes := merged(waiters)
		for range waiters {
			got := <-outcomes
			if got.err != nil {
				t.Fatal(got.err)
			}
			got.lease.Release(t.Context())
		}
		if took := time.Since(wiped); took > defaultTTL+driver.Claim+mostBefore*afterBefore+5*time.Second {
			t.Errorf("the last had it after %v", took)
		}
	})
}

func TestCancelledWaitsLeaveNoPlace(t *testing.T) {
	inFakeTime(t, func(t *testing.T, w *world) {
		lockers := w.lockers(20, Config{})
		random := rand.New(rand.NewPCG(1, 2))
		var all sync.WaitGroup
		for i := range 10_000 {
			limit := time.Duration(random.IntN(20_000)) * time.Microsecond
			all.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), limit)
				defer cancel()
				lease, err := lockers[i%len(lockers)].Acquire(ctx, "report")
				if err == nil {
					time.Sleep(time.Duration(i%50) * time.Microsecond)
					lease.Release(t.Context())
				}
			})
			if i%100 == 0 {
				time.Sleep(time.Millisecond)
			}
		}
		all.Wait()
		synctest.Wait()
		for _, l := range lockers {
			if len(l.queues.byName) != 0 || len(l.inbox.expected) != 0 {
				t.Errorf("%d queues and %d tokens are left", len(l.queues.byName), len(l.inbox.expected))
			}
		}
		asked := w.requests()
		lease, err := w.locker(Config{}).TryAcquire(t.Context(), "report")
		if err != nil {
			t.Fatal(err)
		}
		lease.Release(t.Context())
		time.Sleep(time.Minute)
		if holder := w.holder("report"); holder != "" || asked.Load() != 2 {
			t.Errorf("afterwards it is held by %q, after %d requests", holder, asked.Load())
		}
	})
}

func TestWhereTheStoreKeepsNoQueueAfterAllWaitersPoll(t *testing.T) {
	inFakeTime(t, func(t *testing.T, w *world) {
		lease := w.acquire(w.locker(Config{}), "report")
		w.fail("enqueue", memstore.Fault{Before: &driver.Error{Kind: driver.ErrUnsupported}})
		waiters := line(t.Context(), w.lockers(2, Config{}))
		outcomes := merged(waiters) // in no order
		time.Sleep(time.Second)
		for range waiters {
			released := time.Now()
			lease.Release(t.Context())
			got := <-outcomes
			if got.err != nil || got.at.Sub(released) > slowestPoll {
				t.Errorf("%v after the release: %v", got.at.Sub(released), got.err)
			}
			lease = got.lease
		}
	})
}

func TestAnInboxThatListensLateDoesNotEndThePolling(t *testing.T) {
	inFakeTime(t, func(t *testing.T, w *world) {
		lease := w.acquire(w.locker(Config{}), "report")
		w.fail("enqueue", memstore.Fault{Before: &driver.Error{Kind: driver.ErrUnsupported}})
		l := w.locker(Config{})
		waiter := line(t.Context(), []*Locker{l})[0]
		l.inbox.restored() // after the store has said that it keeps no queue
		time.Sleep(time.Second)
		released := time.Now()
		lease.Release(t.Context())
		if got := <-waiter; got.err != nil || got.at.Sub(released) > slowestPoll {
			t.Errorf("%v after the release: %v", got.at.Sub(released), got.err)
		}
	})
}

func TestACallLeavesItsPlaceAlsoWhenTheStoreKeepsNoQueueAnyMore(t *testing.T) {
	inFakeTime(t, func(t *testing.T, w *world) {
		lease := w.acquire(w.locker(Config{}), "report")
		l := w.locker(Config{})
		ctx, cancel := context.WithCancel(t.Context())
		waiter := line(ctx, []*Locker{l})[0]
		w.fail("enqueue", memstore.Fault{Before: &driver.Error{Kind: driver.ErrUnsupported}})
		time.Sleep(2 * time.Minute)
		cancel()
		if got := <-waiter; got.err == nil {
			t.Fatal("granted")
		}
		time.Sleep(time.Second)
		if n := len(l.inbox.expected); n != 0 {
			t.Errorf("%d tokens are expected to be handed the name", n)
		}
		w.store.SetFault(nil)
		probe := driver.QueueRequest{AcquireRequest: driver.AcquireRequest{
			Name: "report", Token: driver.NewToken("probe"), TTL: time.Minute,
		}, Keep: time.Minute}
		if result, err := w.store.Enqueue(t.Context(), probe); err != nil || result.Before != 0 {
			t.Errorf("%d have a place in the queue, %v", result.Before, err)
		}
		lease.Release(t.Context())
	})
}

// deaf is a store with a queue, whose inboxes never listen.
type deaf struct{ *memstore.Store }

func (s deaf) OpenInbox(listener driver.Listener) driver.Inbox {
	listener.Restored = func() {}
	return s.Store.OpenInbox(listener)
}

func TestWithoutMessagesWaitersPoll(t *testing.T) {
	inFakeTime(t, func(t *testing.T, w *world) {
		lease := w.acquire(w.locker(Config{}), "report")
		l, err := newLocker(deaf{w.store}, Config{}, w.now)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close(context.Background())
		w.fail("handoff", memstore.Fault{Before: errDown})
		waiter := queued(t.Context(), l, 1)[0]
		time.Sleep(time.Second)
		released := time.Now()
		lease.Release(t.Context())
		if got := <-waiter; got.err != nil || got.at.Sub(released) > slowestPoll {
			t.Errorf("%v after the release: %v", got.at.Sub(released), got.err)
		}
	})
}

func TestFencesGrowAlongTheLine(t *testing.T) {
	inFakeTime(t, func(t *testing.T, w *world) {
		var mu sync.Mutex
		var fences []int64
		lockers := w.lockers(5, Config{})
		var all sync.WaitGroup
		for i := range 200 {
			all.Go(func() {
				err := lockers[i%len(lockers)].Do(t.Context(), "report", func(_ context.Context, lease *Lease) error {
					mu.Lock()
					defer mu.Unlock()
					fences = append(fences, lease.Fence())
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if !slices.IsSorted(fences) || len(slices.Compact(fences)) != 200 {
			t.Errorf("the fences were %v", fences)
		}
	})
}

func TestAFrozenFirstWaiterDelaysTheNextByItsClaim(t *testing.T) {
	inFakeTime(t, func(t *testing.T, w *world) {
		lease := w.acquire(w.locker(Config{}), "report")
		frozen := driver.QueueRequest{Inbox: w.store.OpenInbox(driver.Listener{
			Handed: func(driver.HandOff) {}, Restored: func() {},
		}).Address(), Keep: time.Hour}
		frozen.Name, frozen.Token, frozen.TTL = "report", driver.NewToken("frozen"), time.Minute
		if _, err := w.store.Enqueue(t.Context(), frozen); err != nil {
			t.Fatal(err)
		}
		next := line(t.Context(), w.lockers(1, Config{}))[0]
		released := time.Now()
		if err := lease.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		got := <-next
		if after := got.at.Sub(released); got.err != nil || after > driver.Claim+time.Second {
			t.Errorf("the next had the name %v after the release: %v", after, got.err)
		}
	})
}
