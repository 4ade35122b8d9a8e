package holdfastgocron

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/holdfastlock/holdfast"
	"github.com/holdfastlock/holdfast/driver"
	"github.com/holdfastlock/holdfast/internal/redistest"
	"github.com/holdfastlock/holdfast/memstore"
	"github.com/holdfastlock/holdfast/once"
	"github.com/holdfastlock/holdfast/open"
)

func daily() LockerConfig { return LockerConfig{Schedule: once.Every(24 * time.Hour)} }

func lock(t *testing.T, l *Locker) gocron.Lock {
	t.Helper()
	held, err := l.Lock(t.Context(), "job")
	if err != nil {
		t.Fatal(err)
	}
	return held
}

func TestATickThatIsDoneReachesTheListenerAsSkipped(t *testing.T) {
	inBubble(t, func(t *testing.T, store *memstore.Store) {
		if err := lock(t, newTestLocker(t, newLocker(t, store, "a"), daily())).Unlock(t.Context()); err != nil {
			t.Fatal(err)
		}
		var runs atomic.Int32
		listener, errs := lockErrors()
		scheduler := newScheduler(t, 0, gocron.WithDistributedLocker(newTestLocker(t, newLocker(t, store, "b"), daily())))
		job := schedule(t, scheduler, never(), gocron.NewTask(counted(&runs)), listener)
		scheduler.Start()
		if err := job.RunNow(); err != nil {
			t.Fatal(err)
		}
		err := <-errs
		var skipped *SkippedError
		if !errors.As(err, &skipped) || skipped.Result.Outcome != once.Done || skipped.Job != "job" || runs.Load() != 0 {
			t.Errorf("%v, %d runs", err, runs.Load())
		}
		if want := `job "job", slot 2000-01-01T00:00:00Z: already done (a)`; err.Error() != want {
			t.Errorf("the error reads %q, want %q", err, want)
		}
	})
}

func TestAStoreThatIsDownReachesTheListenerAsUnreachable(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	store, closer, err := open.Store(t.Context(), server.URL(), open.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closer.Close() })
	var runs atomic.Int32
	listener, errs := lockErrors()
	scheduler := newScheduler(t, 0)
	job := schedule(t, scheduler, never(), gocron.NewTask(counted(&runs)), listener,
		gocron.WithDistributedJobLocker(newTestLocker(t, newLocker(t, store, "a"), daily())))
	scheduler.Start()
	server.Kill()
	if err := job.RunNow(); err != nil {
		t.Fatal(err)
	}
	if err := <-errs; !errors.Is(err, holdfast.ErrUnreachable) || errors.Is(err, holdfast.ErrHeld) || runs.Load() != 0 {
		t.Errorf("%v, %d runs", err, runs.Load())
	}
}

func TestAnotherSlotThatStillRunsIsHeldAndSaysByWhom(t *testing.T) {
	inBubble(t, func(t *testing.T, store *memstore.Store) {
		minutely := LockerConfig{Schedule: once.Every(time.Minute)}
		running := lock(t, newTestLocker(t, newLocker(t, store, "a"), minutely))
		time.Sleep(time.Minute)
		_, err := newTestLocker(t, newLocker(t, store, "b"), minutely).Lock(t.Context(), "job")
		var held *holdfast.HeldError
		if !errors.As(err, &held) || held.Holder.Owner() != "a" {
			t.Error(err)
		}
		if err := running.Unlock(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestALossIsReportedWhileTheJobStillRuns: the host is cut off, and another
// takes the slot over before the job has returned.
func TestALossIsReportedWhileTheJobStillRuns(t *testing.T) {
	inBubble(t, func(t *testing.T, store *memstore.Store) {
		failed := make(chan error, 10)
		config := daily()
		config.Failed = func(job string, err error) { failed <- err }
		cutOff := lock(t, newTestLocker(t, newLocker(t, store, "a"), config))
		failing(store, "extend")
		if err := <-failed; !errors.Is(err, holdfast.ErrLost) {
			t.Error(err)
		}
		failing(store)
		time.Sleep(ttl)
		b := newLocker(t, store, "b")
		successor := lock(t, newTestLocker(t, b, daily()))
		if err := cutOff.Unlock(t.Context()); !errors.Is(err, holdfast.ErrLost) {
			t.Errorf("the unlock of the one that lost: %v", err)
		}
		if runs, err := once.Runs(t.Context(), b, "job", 1); err != nil || runs[0].Phase != driver.Running || runs[0].Attempt != 2 || runs[0].Owner() != "b" {
			t.Errorf("%+v, %v", runs, err)
		}
		if err := successor.Unlock(t.Context()); err != nil {
			t.Error(err)
		}
		if len(failed) != 0 {
			t.Errorf("reported again: %v", <-failed)
		}
	})
}

func TestASlotThatCannotBeMarkedDoneIsReported(t *testing.T) {
	inBubble(t, func(t *testing.T, store *memstore.Store) {
		failed := make(chan error, 10)
		config := daily()
		config.Failed = func(job string, err error) { failed <- err }
		ctx, shutdown := context.WithCancel(t.Context())
		held, err := newTestLocker(t, newLocker(t, store, "a"), config).Lock(ctx, "job")
		if err != nil {
			t.Fatal(err)
		}
		failing(store, "finish slot")
		shutdown()
		began := time.Now()
		if err := held.Unlock(ctx); !errors.Is(err, holdfast.ErrUnreachable) || !errors.Is(<-failed, holdfast.ErrUnreachable) {
			t.Error(err)
		}
		if took := time.Since(began); took >= ttl {
			t.Errorf("unlocking with an ended context took %v", took)
		}
	})
}

// TestAShutdownLeavesTheLockToTheJobThatStillRuns: gocron ends the context that
// it gave to Lock, and waits for the job.
func TestAShutdownLeavesTheLockToTheJobThatStillRuns(t *testing.T) {
	inBubble(t, func(t *testing.T, store *memstore.Store) {
		a, b := newLocker(t, store, "a"), newLocker(t, store, "b")
		scheduler := newScheduler(t, 0, gocron.WithDistributedLocker(newTestLocker(t, a, daily())))
		started, finish := make(chan struct{}), make(chan struct{})
		job := schedule(t, scheduler, never(), gocron.NewTask(func(ctx context.Context) {
			close(started)
			<-ctx.Done()
			<-finish
		}))
		scheduler.Start()
		if err := job.RunNow(); err != nil {
			t.Fatal(err)
		}
		<-started
		go scheduler.RemoveJob(job.ID())
		time.Sleep(2 * ttl)
		_, err := newTestLocker(t, b, daily()).Lock(t.Context(), "job")
		var skipped *SkippedError
		if !errors.As(err, &skipped) || skipped.Result.Outcome != once.Running {
			t.Errorf("while the job runs: %v", err)
		}
		close(finish)
		synctest.Wait()
		if done := allDone(t, b); len(done) != 1 || done[0].Owner() != "a" {
			t.Errorf("%+v", done)
		}
	})
}

func TestALockWhoseContextEndsWhileItWaitsBeginsNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, store *memstore.Store) {
		time.Sleep(59 * time.Second) // a second early: it waits for its slot
		locker := newLocker(t, store, "a")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
		defer cancel()
		_, err := newTestLocker(t, locker, LockerConfig{Schedule: once.Every(time.Minute)}).Lock(ctx, "job")
		if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if runs, err := once.Runs(t.Context(), locker, "job", 1); err != nil || len(runs) != 0 {
			t.Errorf("%+v, %v", runs, err)
		}
	})
}

func TestUnlockMayBeCalledAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, store *memstore.Store) {
		held := lock(t, newTestLocker(t, newLocker(t, store, "a"), daily()))
		for range 3 {
			if err := held.Unlock(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestAScheduleThatMakesNoSenseIsRefused(t *testing.T) {
	for _, schedule := range []once.Schedule{{}, once.Every(0), once.Cron("x", "")} {
		if _, err := NewLocker(nil, LockerConfig{Schedule: schedule}); !errors.Is(err, holdfast.ErrMisconfigured) {
			t.Error(err)
		}
	}
}
