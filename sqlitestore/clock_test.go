package sqlitestore

import (
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/holdfastlock/holdfast/driver"
)

// testClock is a clock that a test sets.
type testClock struct{ moment }

func (c *testClock) now() moment { return c.moment }

func newTestClock() *testClock {
	return &testClock{moment{boot: "first", up: 1e9, wall: time.Now().UnixMicro()}}
}

func TestALeaseIsHeldInTheMicrosecondInWhichItEnds(t *testing.T) {
	start := moment{boot: "b", up: 1000, wall: 5000}
	end := start.after(1500 * time.Nanosecond) // 1 µs, and 1 for each fraction
	for up, over := range map[int64]bool{1002: false, 1003: false, 1004: true} {
		if end.before(moment{boot: "b", up: up}) != over {
			t.Errorf("at %d: over is %v, want %v", up, !over, over)
		}
	}
}

func TestAVeryLongLeaseDoesNotOverflow(t *testing.T) {
	now := readNow()
	if now.after(1<<63 - 1).before(now) {
		t.Error("a lease of 292 years has ended already")
	}
}

func TestAStepOfTheWallClockEndsNoLease(t *testing.T) {
	for _, step := range []time.Duration{48 * time.Hour, -48 * time.Hour} {
		clock := newTestClock()
		s := mustOpenAt(t, tempPath(t), clock.now)
		fence := mustAcquire(t, s, request("job", time.Minute))
		clock.wall += step.Microseconds()
		if tryAcquire(t, s, request("job", time.Minute)).Granted {
			t.Errorf("a step of %v let a second one in", step)
		}
		clock.up += 2 * time.Minute.Microseconds()
		if next := mustAcquire(t, s, request("job", time.Minute)); next <= fence {
			t.Errorf("a step of %v: fence %d after %d", step, next, fence)
		}
	}
}

func TestALeaseOfAnotherBootEndsByTheWallClock(t *testing.T) {
	clock := newTestClock()
	s := mustOpenAt(t, tempPath(t), clock.now)
	mustAcquire(t, s, request("job", time.Minute))
	clock.boot, clock.up = "second", 1 // the machine was started again
	if tryAcquire(t, s, request("job", time.Minute)).Granted {
		t.Error("granted to a second one before the end by the wall clock")
	}
	clock.wall += 2 * time.Minute.Microseconds()
	mustAcquire(t, s, request("job", time.Minute))
}

func TestARowGoesAfterADayAndTheFenceStillGrows(t *testing.T) {
	clock := newTestClock()
	s := mustOpenAt(t, tempPath(t), clock.now)
	old, held, fresh := request("old", time.Minute), request("held", 72*time.Hour), request("fresh", time.Minute)
	fence := mustAcquire(t, s, old)
	mustRelease(t, s, old)
	mustAcquire(t, s, request("crashed", time.Minute))
	mustAcquire(t, s, held)
	clock.up += 25 * time.Hour.Microseconds()
	clock.wall += 25 * time.Hour.Microseconds()
	mustAcquire(t, s, fresh)
	mustRelease(t, s, fresh)
	sweepNow(t, s)

	for name, want := range map[string]bool{"old": false, "crashed": false, "held": true, "fresh": true} {
		state, err := s.Inspect(t.Context(), name)
		if err != nil || (state.Fence != 0) != want {
			t.Errorf("%s: kept is %v, want %v (%v)", name, state.Fence != 0, want, err)
		}
	}
	if next := mustAcquire(t, s, old); next <= fence {
		t.Errorf("fence %d after %d", next, fence)
	}
}

func sweepNow(t *testing.T, s *Store) {
	t.Helper()
	_, err := write(t.Context(), s, func(tx *sql.Tx, now moment) (struct{}, error) {
		return struct{}{}, sweep(tx, now)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestTombstonesThatEndedAreRemoved(t *testing.T) {
	clock := newTestClock()
	s := mustOpenAt(t, tempPath(t), clock.now)
	withdraw := func(req driver.AcquireRequest) {
		t.Helper()
		_, err := s.Release(t.Context(), driver.ReleaseRequest{Name: req.Name, Token: req.Token, Tombstone: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
	}
	first, second := request("job", time.Minute), request("job", time.Minute)
	withdraw(first)
	if _, err := s.Acquire(t.Context(), first); !errors.Is(err, driver.ErrWithdrawn) {
		t.Errorf("acquire of a withdrawn token: %v", err)
	}
	clock.up += 2 * time.Minute.Microseconds()
	withdraw(second)
	var count int
	if err := s.db.QueryRow(`SELECT count(*) FROM tombstone`).Scan(&count); err != nil || count != 1 {
		t.Errorf("%d tombstones, want 1 (%v)", count, err)
	}
}
