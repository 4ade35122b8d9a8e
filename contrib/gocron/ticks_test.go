package holdfastgocron

import (
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/holdfastlock/holdfast"
	"github.com/holdfastlock/holdfast/driver"
	"github.com/holdfastlock/holdfast/internal/redistest"
	"github.com/holdfastlock/holdfast/memstore"
	"github.com/holdfastlock/holdfast/once"
	"github.com/holdfastlock/holdfast/open"
)

// skews are those of the hosts' clocks.
var skews = []time.Duration{-3 * time.Second, -90 * time.Millisecond, 0, 80 * time.Millisecond, 3 * time.Second}

// ways are the ways to have a job run once per tick.
var ways = []struct {
	name string
	add  func(t *testing.T, scheduler gocron.Scheduler, locker *holdfast.Locker, definition gocron.JobDefinition, rhythm once.Schedule, runs *atomic.Int32)
}{
	{"Locker", func(t *testing.T, scheduler gocron.Scheduler, locker *holdfast.Locker, definition gocron.JobDefinition, rhythm once.Schedule, runs *atomic.Int32) {
		l := newTestLocker(t, locker, LockerConfig{Schedule: rhythm})
		schedule(t, scheduler, definition, gocron.NewTask(counted(runs)), gocron.WithDistributedJobLocker(l))
	}},
	{"Task", func(t *testing.T, scheduler gocron.Scheduler, locker *holdfast.Locker, definition gocron.JobDefinition, rhythm once.Schedule, runs *atomic.Int32) {
		schedule(t, scheduler, definition, Task(locker, "job", rhythm, countedAttempt(runs)))
	}},
}

// TestHostsWithSkewedClocksRunEachMinuteOnce begins half a minute before the
// first: the bubble's time begins at a full minute.
func TestHostsWithSkewedClocksRunEachMinuteOnce(t *testing.T) {
	const minutes = 30
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, store *memstore.Store) {
				time.Sleep(30 * time.Second)
				var runs atomic.Int32
				for _, skew := range skews {
					scheduler := newScheduler(t, skew)
					locker := newLocker(t, store, skew.String())
					way.add(t, scheduler, locker, gocron.CronJob("* * * * *", false), once.Cron("* * * * *", ""), &runs)
					scheduler.Start()
				}
				time.Sleep(minutes * time.Minute)
				done := allDone(t, newLocker(t, store, "observer"))
				if runs.Load() != minutes || len(done) != minutes || done[0].Slot != "2000-01-01T00:30:00Z" {
					t.Errorf("%d runs of %d slots: %+v", runs.Load(), len(done), done)
				}
			})
		})
	}
}

// TestIntervalsThatBeginAtDifferentMomentsRunEachSlotOnce: the hosts start one
// after another, as in a rolling update, so that gocron's ticks are spread.
func TestIntervalsThatBeginAtDifferentMomentsRunEachSlotOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, store *memstore.Store) {
		var runs atomic.Int32
		for range 5 {
			time.Sleep(11 * time.Second)
			scheduler := newScheduler(t, 0)
			ways[0].add(t, scheduler, newLocker(t, store, "host"), gocron.DurationJob(time.Minute), once.Every(time.Minute), &runs)
			scheduler.Start()
		}
		time.Sleep(30 * time.Minute)
		if done := allDone(t, newLocker(t, store, "observer")); int(runs.Load()) != len(done) || len(done) != 30 {
			t.Errorf("%d runs of %d slots", runs.Load(), len(done))
		}
	})
}

// onRealStores runs a test on each store that processes can share; connect is
// called once for each host.
func onRealStores(t *testing.T, test func(t *testing.T, connect func() driver.Store)) {
	run := func(t *testing.T, url string) {
		t.Parallel()
		test(t, func() driver.Store {
			store, closer, err := open.Store(t.Context(), url, open.Options{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { closer.Close() })
			return store
		})
	}
	t.Run("redis", func(t *testing.T) { run(t, redistest.Start(t, redistest.Options{}).URL()) })
	t.Run("sqlite", func(t *testing.T) { run(t, "sqlite://"+filepath.Join(t.TempDir(), "locks.db")) })
}

// TestHostsWithSkewedClocksRunEachSecondOnce waits for ten slots to be done, and
// compares the runs that the hosts count with those that the store knows.
func TestHostsWithSkewedClocksRunEachSecondOnce(t *testing.T) {
	onRealStores(t, func(t *testing.T, connect func() driver.Store) {
		var runs atomic.Int32
		var schedulers []gocron.Scheduler
		for _, skew := range skews {
			scheduler := newScheduler(t, skew)
			ways[0].add(t, scheduler, newLocker(t, connect(), skew.String()), gocron.CronJob("* * * * * *", true), once.Every(time.Second), &runs)
			scheduler.Start()
			schedulers = append(schedulers, scheduler)
		}
		waitUntil(t, func() bool { return runs.Load() >= 10 })
		for _, scheduler := range schedulers {
			if err := scheduler.Shutdown(); err != nil {
				t.Error(err)
			}
		}
		done := allDone(t, newLocker(t, connect(), "observer"))
		if int(runs.Load()) != len(done) {
			t.Errorf("%d runs of %d slots", runs.Load(), len(done))
		}
	})
}

// waitUntil waits for a condition.
func waitUntil(t *testing.T, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for !condition() {
		if time.Now().After(deadline) {
			t.Fatal("waited a minute in vain")
		}
		time.Sleep(5 * time.Millisecond)
	}
}
