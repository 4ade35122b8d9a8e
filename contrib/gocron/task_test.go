package holdfastgocron

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/google/uuid"

	"github.com/holdfastlock/holdfast"
	"github.com/holdfastlock/holdfast/driver"
	"github.com/holdfastlock/holdfast/memstore"
	"github.com/holdfastlock/holdfast/once"
)

func countedAttempt(runs *atomic.Int32) func(context.Context, once.Attempt) error {
	return func(context.Context, once.Attempt) error {
		counted(runs)()
		return nil
	}
}

// runNow starts the task once under gocron, and returns its error as gocron has it.
func runNow(t *testing.T, scheduler gocron.Scheduler, task gocron.Task, opts ...gocron.JobOption) <-chan error {
	t.Helper()
	ended := make(chan error, 1)
	job := schedule(t, scheduler, never(), task, append(opts, gocron.WithEventListeners(
		gocron.AfterJobRuns(func(uuid.UUID, string) { ended <- nil }),
		gocron.AfterJobRunsWithError(func(_ uuid.UUID, _ string, err error) { ended <- err }),
	))...)
	scheduler.Start()
	if err := job.RunNow(); err != nil {
		t.Fatal(err)
	}
	return ended
}

func day() once.Schedule { return once.Every(24 * time.Hour) }

func TestATaskSkipsWhatIsDoneWithoutAnError(t *testing.T) {
	inBubble(t, func(t *testing.T, store *memstore.Store) {
		var runs atomic.Int32
		for _, host := range []string{"a", "b", "c"} {
			if err := <-runNow(t, newScheduler(t, 0), Task(newLocker(t, store, host), "job", day(), countedAttempt(&runs))); err != nil {
				t.Error(err)
			}
		}
		if runs.Load() != 1 {
			t.Errorf("%d runs", runs.Load())
		}
	})
}

func TestALossEndsTheContextOfATaskAndReachesTheListener(t *testing.T) {
	inBubble(t, func(t *testing.T, store *memstore.Store) {
		errOwn := errors.New("the report is half written")
		err := <-runNow(t, newScheduler(t, 0), Task(newLocker(t, store, "a"), "job", day(), func(ctx context.Context, _ once.Attempt) error {
			failing(store, "extend")
			<-ctx.Done()
			if !errors.Is(context.Cause(ctx), holdfast.ErrLost) {
				t.Errorf("the context ended with %v", context.Cause(ctx))
			}
			return errOwn
		}))
		if !errors.Is(err, holdfast.ErrLost) || !errors.Is(err, errOwn) {
			t.Error(err)
		}
	})
}

func TestAStoreThatIsDownReachesTheListenerOfATask(t *testing.T) {
	inBubble(t, func(t *testing.T, store *memstore.Store) {
		var runs atomic.Int32
		failing(store, "acquire")
		err := <-runNow(t, newScheduler(t, 0), Task(newLocker(t, store, "a"), "job", day(), countedAttempt(&runs)))
		if !errors.Is(err, holdfast.ErrUnreachable) || runs.Load() != 0 {
			t.Errorf("%v, %d runs", err, runs.Load())
		}
	})
}

// TestATaskRunsBesideJobsWithALocker if that is disabled for it.
func TestATaskRunsBesideJobsWithALocker(t *testing.T) {
	inBubble(t, func(t *testing.T, store *memstore.Store) {
		var runs atomic.Int32
		locker := newLocker(t, store, "a")
		scheduler := newScheduler(t, 0, gocron.WithDistributedLocker(newTestLocker(t, locker, daily())))
		task := Task(locker, "job", day(), countedAttempt(&runs))
		if err := <-runNow(t, scheduler, task, gocron.WithDisabledDistributedJobLocker(true)); err != nil || runs.Load() != 1 {
			t.Errorf("%v, %d runs", err, runs.Load())
		}
	})
}

// TestATaskCutOffByShutdownIsTakenOver, and one that fails by itself is not.
func TestATaskCutOffByShutdownIsTakenOver(t *testing.T) {
	inBubble(t, func(t *testing.T, store *memstore.Store) {
		scheduler := newScheduler(t, 0)
		begun := make(chan struct{})
		runNow(t, scheduler, Task(newLocker(t, store, "a"), "job", day(), func(ctx context.Context, _ once.Attempt) error {
			close(begun)
			<-ctx.Done()
			return ctx.Err()
		}))
		<-begun
		if err := scheduler.Shutdown(); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		errOwn := errors.New("no paper")
		b := newLocker(t, store, "b")
		err := <-runNow(t, newScheduler(t, 0), Task(b, "job", day(), func(_ context.Context, attempt once.Attempt) error {
			if attempt.Number != 2 {
				t.Errorf("attempt %d", attempt.Number)
			}
			return errOwn
		}))
		if !errors.Is(err, errOwn) {
			t.Error(err)
		}
		if runs, err := once.Runs(t.Context(), b, "job", 1); err != nil || runs[0].Phase != driver.Done || runs[0].Code != 1 {
			t.Errorf("%+v, %v", runs, err)
		}
	})
}
