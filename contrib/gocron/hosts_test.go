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
	"github.com/jonboulle/clockwork"

	"github.com/holdfastlock/holdfast"
	"github.com/holdfastlock/holdfast/driver"
	"github.com/holdfastlock/holdfast/memstore"
	"github.com/holdfastlock/holdfast/once"
)

const ttl = 10 * time.Second

// inBubble runs a test in fake time with one store.
func inBubble(t *testing.T, test func(t *testing.T, store *memstore.Store)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, memstore.New()) })
}

// newLocker returns a locker, as another process would have one.
func newLocker(t *testing.T, store driver.Store, owner string) *holdfast.Locker {
	t.Helper()
	locker, err := holdfast.New(store, holdfast.Config{Owner: owner, TTL: ttl, StoreTimeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { locker.Close(context.Background()) })
	return locker
}

// skewed is a clock that is off.
type skewed struct {
	clockwork.Clock
	by time.Duration
}

func (s skewed) Now() time.Time                  { return s.Clock.Now().Add(s.by) }
func (s skewed) Since(t time.Time) time.Duration { return s.Now().Sub(t) }
func (s skewed) Until(t time.Time) time.Duration { return t.Sub(s.Now()) }

// newScheduler returns one that is not started, whose clock is off by skew.
func newScheduler(t *testing.T, skew time.Duration, opts ...gocron.SchedulerOption) gocron.Scheduler {
	t.Helper()
	clock := skewed{clockwork.NewRealClock(), skew}
	scheduler, err := gocron.NewScheduler(append(opts, gocron.WithClock(clock), gocron.WithLocation(time.UTC))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { scheduler.Shutdown() })
	return scheduler
}

func schedule(t *testing.T, scheduler gocron.Scheduler, definition gocron.JobDefinition, task gocron.Task, opts ...gocron.JobOption) gocron.Job {
	t.Helper()
	job, err := scheduler.NewJob(definition, task, append(opts, gocron.WithName("job"))...)
	if err != nil {
		t.Fatal(err)
	}
	return job
}

func newTestLocker(t *testing.T, locker *holdfast.Locker, config LockerConfig) *Locker {
	t.Helper()
	l, err := NewLocker(locker, config)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// counted is a job of a millisecond that counts its runs.
func counted(runs *atomic.Int32) func() {
	return func() {
		time.Sleep(time.Millisecond)
		runs.Add(1)
	}
}

// never is a definition whose only start is by RunNow.
func never() gocron.JobDefinition { return gocron.DurationJob(1000 * time.Hour) }

// lockErrors is an option that hands on what gocron tells of Lock.
func lockErrors() (gocron.JobOption, <-chan error) {
	errs := make(chan error, 100)
	return gocron.WithEventListeners(gocron.AfterLockError(func(_ uuid.UUID, _ string, err error) { errs <- err })), errs
}

// allDone returns what the store knows of the job, and checks that each slot had
// one attempt and is done.
func allDone(t *testing.T, locker *holdfast.Locker) []driver.Run {
	t.Helper()
	runs, err := once.Runs(t.Context(), locker, "job", driver.MaxRuns)
	if err != nil {
		t.Fatal(err)
	}
	for _, run := range runs {
		if run.Phase != driver.Done || run.Attempt != 1 || run.Code != 0 {
			t.Errorf("slot %s: %+v", run.Slot, run)
		}
	}
	return runs
}

var errLine = &driver.Error{Kind: driver.ErrUnreachable, Err: errors.New("the line is down")}

// failing makes the operations fail until it is called with none.
func failing(store *memstore.Store, ops ...string) {
	store.SetFault(func(op string) memstore.Fault {
		for _, failing := range ops {
			if op == failing {
				return memstore.Fault{Before: errLine}
			}
		}
		return memstore.Fault{}
	})
}
