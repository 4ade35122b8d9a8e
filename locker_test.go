package holdfast

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfastlock/holdfast/driver"
	"github.com/holdfastlock/holdfast/memstore"
)

// world is one store and one machine in fake time.
type world struct {
	t         *testing.T
	store     *memstore.Store
	suspended atomic.Int64 // nanoseconds that passed while the machine slept
	stepped   atomic.Int64 // nanoseconds by which the wall clock was set
}

// inFakeTime runs the test in a bubble, where time passes only when all wait.
func inFakeTime(t *testing.T, test func(t *testing.T, w *world)) {
	synctest.Test(t, func(t *testing.T) { test(t, &world{t: t, store: memstore.New()}) })
}

// now is the machine's clock: unlike in production it has a boot clock in the
// bubble, so that suspension can be tried.
func (w *world) now() instant {
	now := time.Now()
	wall := time.Duration(now.UnixNano() + w.suspended.Load())
	return instant{at: now, boot: wall, wall: wall + time.Duration(w.stepped.Load())}
}

func (w *world) locker(config Config) *Locker {
	w.t.Helper()
	l, err := newLocker(w.store, config, w.now)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { l.Close(context.Background()) })
	return l
}

func (w *world) acquire(l *Locker, name string, opts ...AcquireOption) *Lease {
	w.t.Helper()
	lease, err := l.TryAcquire(w.t.Context(), name, opts...)
	if err != nil {
		w.t.Fatal(err)
	}
	return lease
}

// holder returns the token that the store has for the name.
func (w *world) holder(name string) string {
	w.t.Helper()
	state, err := w.store.Inspect(context.Background(), name)
	if err != nil {
		w.t.Fatal(err)
	}
	if len(state.Holders) == 0 {
		return ""
	}
	return state.Holders[0].Token
}

// fail makes every operation of that kind fail so until the returned function
// is called.
func (w *world) fail(op string, fault memstore.Fault) (heal func()) {
	w.store.SetFault(func(o string) memstore.Fault {
		if o == op || op == "" {
			return fault
		}
		return memstore.Fault{}
	})
	return func() { w.store.SetFault(nil) }
}

var errDown = &driver.Error{Kind: ErrUnreachable, Err: errors.New("connection refused")}

func TestOneOfTwoAcquiresAndTheOtherIsToldWhoHoldsIt(t *testing.T) {
	inFakeTime(t, func(t *testing.T, w *world) {
		first := w.locker(Config{Owner: "host-1/7"})
		w.acquire(first, "report", WithPurpose("the nightly report"))
		_, err := w.locker(Config{}).TryAcquire(t.Context(), "report")
		var held *HeldError
		if !errors.As(err, &held) || !errors.Is(err, ErrHeld) {
			t.Fatalf("the second got %v", err)
		}
		if held.Holder.Owner() != "host-1/7" || held.Holder.Purpose != "the nightly report" || held.Holder.Left != 30*time.Second {
			t.Errorf("the second was told %+v", held.Holder)
		}
	})
}

func TestALeaseIsKeptAliveManyTTLs(t *testing.T) {
	inFakeTime(t, func(t *testing.T, w *world) {
		lease := w.acquire(w.locker(Config{}), "report")
		time.Sleep(40 * time.Minute)
		if lease.Context().Err() != nil || !lease.Valid(time.Second) {
			t.Fatalf("after 40 minutes: %v", context.Cause(lease.Context()))
		}
		if w.holder("report") != lease.Token() {
			t.Error("the store has another holder")
		}
	})
}

func TestALeaseWithoutKeepAliveEndsBeforeItsTTL(t *testing.T) {
	inFakeTime(t, func(t *testing.T, w *world) {
		lease := w.acquire(w.locker(Config{}), "report", WithoutKeepAlive(), WithTTL(10*time.Second))
		began := time.Now()
		<-lease.Context().Done()
		if got, want := time.Since(began), 9800*time.Millisecond; got != want {
			t.Errorf("its context ended after %v, want %v", got, want)
		}
		if w.holder("report") == "" {
			t.Error("the store let go before the holder stopped")
		}
		wantLost(t, context.Cause(lease.Context()), LostExpired)
	})
}

func wantLost(t *testing.T, err error, reason LostReason) {
	t.Helper()
	var lost *LostError
	if !errors.As(err, &lost) || lost.Reason != reason {
		t.Errorf("the error is %v, want it lost because %v", err, reason)
	}
}

func TestAFailedRenewalIsTriedAgainAndMovesNothing(t *testing.T) {
	inFakeTime(t, func(t *testing.T, w *world) {
		var failures, losses atomic.Int32
		l := w.locker(Config{Events: Events{
			ExtendFailed: func(Event) { failures.Add(1) },
			Lost:         func(Event) { losses.Add(1) },
		}})
		lease := w.acquire(l, "report")
		deadline := lease.Deadline()
		heal := w.fail("extend", memstore.Fault{Before: errDown})
		time.Sleep(20 * time.Second)
		if failures.Load() < 3 || !lease.Deadline().Equal(deadline) {
			t.Errorf("%d failures, the deadline moved by %v", failures.Load(), lease.Deadline().Sub(deadline))
		}
		heal()
		time.Sleep(20 * time.Second)
		if losses.Load() != 0 || !lease.Valid(0) {
			t.Errorf("after the store is back: %v", context.Cause(lease.Context()))
		}
	})
}

func TestAnUnansweredRenewalLeavesTheOldDeadline(t *testing.T) {
	inFakeTime(t, func(t *testing.T, w *world) {
		lease := w.acquire(w.locker(Config{}), "report")
		deadline := lease.Deadline()
		// The request arrives: the store keeps the name. The holder can't know.
		w.fail("extend", memstore.Fault{After: errDown})
		<-lease.Context().Done()
		if !time.Now().Equal(deadline) {
			t.Errorf("its context ended %v after its deadline", time.Since(deadline))
		}
		wantLost(t, context.Cause(lease.Context()), LostExpired)
		if errors.Is(context.Cause(lease.Context()), ErrUnreachable) {
			t.Error("a lost lock looks like a store that is down")
		}
	})
}

func TestALossIsReportedOnce(t *testing.T) {
	inFakeTime(t, func(t *testing.T, w *world) {
		var losses atomic.Int32
		l := w.locker(Config{Events: Events{Lost: func(Event) { losses.Add(1) }}})
		lease := w.acquire(l, "report")
		w.store.Wipe()
		<-lease.Context().Done()
		wantLost(t, context.Cause(lease.Context()), LostGone)
		wantLost(t, lease.Confirm(t.Context()), LostGone)
		wantLost(t, lease.Release(t.Context()), LostGone)
		wantLost(t, lease.Release(t.Context()), LostGone)
		synctest.Wait() // the event comes after the end of the context
		if losses.Load() != 1 {
			t.Errorf("reported %d times", losses.Load())
		}
	})
}

func TestATakenLockIsNotedAtTheNextRenewal(t *testing.T) {
	inFakeTime(t, func(t *testing.T, w *world) {
		lease := w.acquire(w.locker(Config{}), "report")
		w.store.Wipe()
		second := w.acquire(w.locker(Config{}), "report")
		<-lease.Context().Done()
		wantLost(t, context.Cause(lease.Context()), LostTaken)
		if second.Fence() <= lease.Fence() {
			t.Errorf("fence %d after %d", second.Fence(), lease.Fence())
		}
		if !second.Valid(0) || w.holder("report") != second.Token() {
			t.Error("the successor was disturbed")
		}
	})
}

func TestALateReleaseLeavesTheSuccessorAlone(t *testing.T) {
	inFakeTime(t, func(t *testing.T, w *world) {
		first := w.acquire(w.locker(Config{}), "report", WithoutKeepAlive())
		time.Sleep(31 * time.Second)
		second := w.acquire(w.locker(Config{}), "report")
		wantLost(t, first.Release(t.Context()), LostExpired)
		if w.holder("report") != second.Token() {
			t.Error("the late release freed the successor's lock")
		}
	})
}

func TestAfterSuspensionTheContextIsEndedAndTheLeaseInvalidAtOnce(t *testing.T) {
	inFakeTime(t, func(t *testing.T, w *world) {
		lease := w.acquire(w.locker(Config{}), "report")
		time.Sleep(time.Second)
		w.suspended.Add(int64(5 * time.Minute))
		w.store.Advance(5 * time.Minute)
		if lease.Valid(0) {
			t.Error("valid after five minutes of sleep")
		}
		resumed := time.Now()
		<-lease.Context().Done()
		if late := time.Since(resumed); late > checkEvery {
			t.Errorf("the context ended %v after the machine woke", late)
		}
		wantLost(t, context.Cause(lease.Context()), LostExpired)
	})
}

func TestAStepOfTheWallClockRenewsAndLosesNothing(t *testing.T) {
	inFakeTime(t, func(t *testing.T, w *world) {
		var renewals atomic.Int32
		l := w.locker(Config{Events: Events{Extended: func(Event) { renewals.Add(1) }}})
		lease := w.acquire(l, "report")
		for _, step := range []time.Duration{time.Hour, -2 * time.Hour} {
			w.stepped.Add(int64(step))
			before := renewals.Load()
			time.Sleep(checkEvery + time.Millisecond)
			if renewals.Load() != before+1 || !lease.Valid(0) {
				t.Errorf("after a step of %v: %d renewals, valid %v", step, renewals.Load()-before, lease.Valid(0))
			}
		}
	})
}

func TestConfirmExtendsAndTellsALoss(t *testing.T) {
	inFakeTime(t, func(t *testing.T, w *world) {
		lease := w.acquire(w.locker(Config{}), "report", WithoutKeepAlive())
		time.Sleep(20 * time.Second)
		if err := lease.Confirm(t.Context()); err != nil || !lease.Valid(29*time.Second) {
			t.Fatalf("confirmed: %v, deadline in %v", err, time.Until(lease.Deadline()))
		}
		w.store.Wipe()
		wantLost(t, lease.Confirm(t.Context()), LostGone)
		if lease.Context().Err() == nil {
			t.Error("the context lives on after the loss")
		}
	})
}

func TestExtendNeverShortensALease(t *testing.T) {
	inFakeTime(t, func(t *testing.T, w *world) {
		lease := w.acquire(w.locker(Config{}), "report")
		if err := lease.Extend(t.Context(), time.Hour); err != nil {
			t.Fatal(err)
		}
		if err := lease.Extend(t.Context(), time.Second); err != nil {
			t.Fatal(err)
		}
		if !lease.Valid(58 * time.Minute) {
			t.Errorf("valid for only %v", time.Until(lease.Deadline()))
		}
	})
}

func TestMaxHoldEndsALeaseWhoseRenewalsGoWell(t *testing.T) {
	inFakeTime(t, func(t *testing.T, w *world) {
		lease := w.acquire(w.locker(Config{}), "report", WithMaxHold(time.Minute))
		began := time.Now()
		<-lease.Context().Done()
		if got := time.Since(began); got != time.Minute {
			t.Errorf("it ended after %v", got)
		}
		wantLost(t, context.Cause(lease.Context()), LostMaxHold)
	})
}

func TestLockDelayKeepsTheNameLongerThanTheHolderTrustsIt(t *testing.T) {
	inFakeTime(t, func(t *testing.T, w *world) {
		first := w.acquire(w.locker(Config{}), "report", WithoutKeepAlive(), WithLockDelay(time.Minute))
		<-first.Context().Done()
		other := w.locker(Config{})
		time.Sleep(59 * time.Second)
		if _, err := other.TryAcquire(t.Context(), "report"); !errors.Is(err, ErrHeld) {
			t.Fatalf("within the delay: %v", err)
		}
		time.Sleep(2 * time.Second)
		second := w.acquire(other, "report", WithLockDelay(time.Minute))
		if err := second.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.acquire(other, "report") // a release frees at once all the same
	})
}

func TestAnAcquireWhoseReplyIsLostIsRecognisedByItsToken(t *testing.T) {
	inFakeTime(t, func(t *testing.T, w *world) {
		var asked atomic.Int32
		w.store.SetFault(func(string) memstore.Fault {
			if asked.Add(1) == 1 {
				return memstore.Fault{After: errDown}
			}
			return memstore.Fault{}
		})
		lease := w.acquire(w.locker(Config{}), "report")
		if asked.Load() != 2 || w.holder("report") != lease.Token() {
			t.Errorf("asked %d times", asked.Load())
		}
	})
}

func TestAnAcquireWithUnknownOutcomeIsNotHeldAndIsTakenBack(t *testing.T) {
	inFakeTime(t, func(t *testing.T, w *world) {
		heal := w.fail("", memstore.Fault{After: errDown})
		l := w.locker(Config{})
		_, err := l.TryAcquire(t.Context(), "report")
		if !errors.Is(err, ErrUnreachable) || errors.Is(err, ErrHeld) {
			t.Fatalf("the error is %v", err)
		}
		heal()
		time.Sleep(time.Second)
		if w.holder("report") != "" {
			t.Error("the name is still locked a second after the store is back")
		}
	})
}

func TestARequestThatArrivesAfterItsCallerWentDoesNotLockTheName(t *testing.T) {
	inFakeTime(t, func(t *testing.T, w *world) {
		var late driver.AcquireRequest
		slow := slowStore{Store: w.store, late: &late}
		l, err := newLocker(slow, Config{}, w.now)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close(context.Background())
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := l.TryAcquire(ctx, "report"); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("the error is %v", err)
		}
		time.Sleep(time.Second) // the clean-up comes first
		if _, err := w.store.Acquire(t.Context(), late); !errors.Is(err, driver.ErrWithdrawn) {
			t.Errorf("the late request was answered %v", err)
		}
	})
}

// slowStore swallows acquires: they are still on their way.
type slowStore struct {
	*memstore.Store
	late *driver.AcquireRequest
}

func (s slowStore) Acquire(ctx context.Context, req driver.AcquireRequest) (driver.AcquireResult, error) {
	*s.late = req
	<-ctx.Done()
	return driver.AcquireResult{}, driver.NoAnswer(ctx, ctx.Err())
}

func TestAStoreThatIsDownIsNotALockThatIsHeld(t *testing.T) {
	inFakeTime(t, func(t *testing.T, w *world) {
		w.fail("", memstore.Fault{Before: errDown})
		l := w.locker(Config{StoreTimeout: 3 * time.Second})
		began := time.Now()
		_, err := l.Acquire(t.Context(), "report")
		if !errors.Is(err, ErrUnreachable) || errors.Is(err, ErrHeld) || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the error is %v", err)
		}
		if got := time.Since(began); got != 3*time.Second {
			t.Errorf("it was returned after %v", got)
		}
		if _, err := l.Inspect(t.Context(), "report"); !errors.Is(err, ErrUnreachable) {
			t.Errorf("Inspect says %v", err)
		}
	})
}

func TestReleaseWorksUnderADeadContextAndMayBeDeferredToo(t *testing.T) {
	inFakeTime(t, func(t *testing.T, w *world) {
		lease := w.acquire(w.locker(Config{}), "report")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for range 2 {
			if err := lease.Release(ctx); err != nil {
				t.Errorf("the release says %v", err)
			}
		}
		if w.holder("report") != "" {
			t.Error("still held")
		}
	})
}

func TestAReleaseThatFailedCanBeTriedAgain(t *testing.T) {
	inFakeTime(t, func(t *testing.T, w *world) {
		var failed int
		lease := w.acquire(w.locker(Config{Events: Events{ReleaseFailed: func(Event) { failed++ }}}), "report")
		heal := w.fail("release", memstore.Fault{Before: errDown})
		began := time.Now()
		if err := lease.Release(t.Context()); !errors.Is(err, ErrUnreachable) || failed != 1 {
			t.Fatalf("the release says %v, %d events", err, failed)
		}
		if got := time.Since(began); got != releaseLimit {
			t.Errorf("it tried for %v", got)
		}
		heal()
		if err := lease.Release(t.Context()); err != nil || w.holder("report") != "" {
			t.Errorf("the second try says %v", err)
		}
	})
}

func TestAReleaseWhoseReplyIsLostIsARelease(t *testing.T) {
	inFakeTime(t, func(t *testing.T, w *world) {
		lease := w.acquire(w.locker(Config{}), "report")
		w.fail("release", memstore.Fault{After: errDown})
		if err := lease.Release(t.Context()); !errors.Is(err, ErrUnreachable) {
			t.Fatal(err)
		}
		w.store.SetFault(nil)
		if err := lease.Release(t.Context()); err != nil {
			t.Errorf("the name was freed by us, but we are told %v", err)
		}
	})
}

func TestARenewalUnderWayDoesNotOutliveARelease(t *testing.T) {
	inFakeTime(t, func(t *testing.T, w *world) {
		var lost atomic.Int32
		l := w.locker(Config{Events: Events{Lost: func(Event) { lost.Add(1) }}})
		lease := w.acquire(l, "report")
		w.store.SetFault(func(op string) memstore.Fault {
			if op == "extend" {
				time.Sleep(time.Second) // the renewal is on its way meanwhile
			}
			return memstore.Fault{}
		})
		time.Sleep(10 * time.Second)
		if err := lease.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if lost.Load() != 0 || w.holder("report") != "" {
			t.Errorf("%d losses reported after the release", lost.Load())
		}
	})
}

func TestCloseReleasesWhatIsHeldAndEndsThoseWhoWait(t *testing.T) {
	inFakeTime(t, func(t *testing.T, w *world) {
		l := w.locker(Config{})
		var leases []*Lease
		for i := range 200 {
			leases = append(leases, w.acquire(l, fmt.Sprint("job-", i)))
		}
		waited := make(chan error)
		go func() {
			_, err := l.Acquire(t.Context(), "job-7")
			waited <- err
		}()
		synctest.Wait()
		done := make(chan error)
		go func() { done <- l.Close(t.Context()) }()
		if err := <-waited; !errors.Is(err, ErrClosed) {
			t.Errorf("the waiter was told %v", err)
		}
		if err := <-done; err != nil {
			t.Errorf("Close says %v", err)
		}
		for _, lease := range leases {
			if w.holder(lease.Name()) != "" || !errors.Is(context.Cause(lease.Context()), ErrClosed) {
				t.Fatalf("%s is still held, or its context says %v", lease.Name(), context.Cause(lease.Context()))
			}
		}
		if _, err := l.TryAcquire(t.Context(), "other"); !errors.Is(err, ErrClosed) {
			t.Errorf("afterwards: %v", err)
		}
	})
}

func TestCloseOfALockerWhoseStoreIsDownEndsWithItsContext(t *testing.T) {
	inFakeTime(t, func(t *testing.T, w *world) {
		l := w.locker(Config{})
		for i := range 1000 {
			w.acquire(l, fmt.Sprint("job-", i))
		}
		w.fail("", memstore.Fault{Before: errDown})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		if err := l.Close(ctx); err == nil {
			t.Error("Close reports success")
		}
		if got := time.Since(began); got > time.Second+releaseLimit {
			t.Errorf("Close took %v", got)
		}
	})
}

func TestResumeGoesOnWithTheLeaseOfAToken(t *testing.T) {
	inFakeTime(t, func(t *testing.T, w *world) {
		first := w.acquire(w.locker(Config{}), "report", WithoutKeepAlive())
		other := w.locker(Config{})
		time.Sleep(20 * time.Second)
		lease, err := other.Resume(t.Context(), "report", first.Token())
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if !lease.Valid(0) || lease.Fence() < first.Fence() {
			t.Errorf("valid %v, fence %d, after %d", lease.Valid(0), lease.Fence(), first.Fence())
		}
		if err := lease.Release(t.Context()); err != nil {
			t.Error(err)
		}
		_, err = other.Resume(t.Context(), "report", first.Token())
		wantLost(t, err, LostGone)
		w.acquire(other, "report")
		_, err = other.Resume(t.Context(), "report", first.Token())
		wantLost(t, err, LostTaken)
	})
}

func TestDoEndsTheContextOfItsWorkWithTheLeaseAndWithItsCaller(t *testing.T) {
	inFakeTime(t, func(t *testing.T, w *world) {
		l := w.locker(Config{})
		err := l.Do(t.Context(), "report", func(ctx context.Context, lease *Lease) error {
			w.store.Wipe()
			<-ctx.Done()
			wantLost(t, context.Cause(ctx), LostGone)
			return nil
		})
		wantLost(t, err, LostGone)

		ctx, cancel := context.WithCancel(t.Context())
		err = l.Do(ctx, "report", func(ctx context.Context, lease *Lease) error {
			cancel()
			<-ctx.Done()
			return ctx.Err()
		})
		if !errors.Is(err, context.Canceled) || errors.Is(err, ErrLost) {
			t.Errorf("cancelled by its caller, Do says %v", err)
		}
		if w.holder("report") != "" {
			t.Error("still held")
		}
	})
}

func TestDoReleasesAfterAPanic(t *testing.T) {
	inFakeTime(t, func(t *testing.T, w *world) {
		l := w.locker(Config{})
		func() {
			defer func() { recover() }()
			l.Do(t.Context(), "report", func(context.Context, *Lease) error { panic("oh") })
		}()
		if w.holder("report") != "" {
			t.Error("still held")
		}
	})
}

func TestALeaseOutlivesTheContextOfItsAcquire(t *testing.T) {
	inFakeTime(t, func(t *testing.T, w *world) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		lease, err := w.locker(Config{}).Acquire(ctx, "report")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if !lease.Valid(0) || lease.Context().Err() != nil {
			t.Errorf("it ended: %v", context.Cause(lease.Context()))
		}
	})
}

func TestManyLeasesAreRenewedInFewCallsByOneGoroutine(t *testing.T) {
	inFakeTime(t, func(t *testing.T, w *world) {
		var calls atomic.Int32
		w.store.SetFault(func(op string) memstore.Fault {
			if op == "extend" {
				calls.Add(1)
			}
			return memstore.Fault{}
		})
		l := w.locker(Config{})
		const leases = 1000
		for i := range leases {
			w.acquire(l, fmt.Sprint("job-", i))
		}
		time.Sleep(5 * time.Minute) // at least 30 renewals of each
		if n := calls.Load(); n == 0 || n > 30*leases/20 {
			t.Errorf("%d calls to renew %d leases for five minutes", n, leases)
		}
		for i := range leases {
			if w.holder(fmt.Sprint("job-", i)) == "" {
				t.Fatalf("job-%d was lost", i)
			}
		}
	})
}

func TestBadConfigurationsAndOptionsAreRefusedWithAReason(t *testing.T) {
	store := memstore.New()
	for _, config := range []Config{
		{TTL: time.Millisecond},
		{StoreTimeout: -1},
		{Owner: "two words"},
		{Owner: string(make([]byte, 300))},
	} {
		if _, err := New(store, config); !errors.Is(err, ErrMisconfigured) {
			t.Errorf("%+v: %v", config, err)
		}
	}
	if _, err := New(nil, Config{}); !errors.Is(err, ErrMisconfigured) {
		t.Errorf("a nil store: %v", err)
	}
	l, err := New(store, Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close(context.Background())
	for _, opt := range [][]AcquireOption{
		{WithTTL(time.Millisecond)},
		{WithMaxHold(-1)},
		{WithLockDelay(-1)},
		{WithPurpose(string(make([]byte, 300)))},
		{WithPurpose("why"), WithoutFence()},
	} {
		if _, err := l.TryAcquire(t.Context(), "x", opt...); !errors.Is(err, ErrMisconfigured) {
			t.Errorf("%v", err)
		}
	}
	var name *driver.NameError
	if _, err := l.TryAcquire(t.Context(), ""); !errors.As(err, &name) {
		t.Errorf("no name: %v", err)
	}
}

func TestPersistAsksUntilThereIsAnAnswer(t *testing.T) {
	inFakeTime(t, func(t *testing.T, w *world) {
		l := w.locker(Config{StoreTimeout: 2 * time.Second})
		if l.Store() != w.store {
			t.Error("Store is not what New was given")
		}
		down, refused := &driver.Error{Kind: ErrUnreachable}, &driver.Error{Kind: ErrRefused}
		for want, answers := range map[error][]error{nil: {down, down, nil}, refused: {down, refused, nil}} {
			asked := 0
			err := l.Persist(t.Context(), func(context.Context) error { asked++; return answers[asked-1] })
			if !errors.Is(err, want) {
				t.Errorf("after %d answers: %v, want %v", asked, err, want)
			}
		}
		began := time.Now()
		err := l.Persist(t.Context(), func(context.Context) error { return down })
		if took := time.Since(began); !errors.Is(err, ErrUnreachable) || took > 2*time.Second {
			t.Errorf("gave up after %v with %v", took, err)
		}
		l.Close(t.Context())
		if err := l.Persist(t.Context(), func(context.Context) error { return nil }); !errors.Is(err, ErrClosed) {
			t.Errorf("closed: %v", err)
		}
	})
}
