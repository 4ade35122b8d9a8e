package memstore_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfastlock/holdfast/driver"
	"github.com/holdfastlock/holdfast/drivertest"
	"github.com/holdfastlock/holdfast/memstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestMemstoreConforms(t *testing.T) {
	drivertest.Run(t, func(*testing.T) drivertest.Backend {
		store := memstore.New()
		return drivertest.Backend{
			Open:    func(*testing.T) driver.Store { return store },
			Advance: store.Advance,
			Wipe:    func(*testing.T) { store.Wipe() },
		}
	})
}

func acquire(t *testing.T, store *memstore.Store, token string, ttl time.Duration) driver.AcquireResult {
	t.Helper()
	result, err := store.Acquire(t.Context(), driver.AcquireRequest{Name: "job", Token: token, TTL: ttl})
	if err != nil {
		t.Fatal(err)
	}
	return result
}

func TestALeaseEndsExactlyAfterItsTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		acquire(t, store, "first", time.Second)
		time.Sleep(time.Second - 1)
		if acquire(t, store, "second", time.Second).Granted {
			t.Error("granted a nanosecond too early")
		}
		time.Sleep(time.Nanosecond)
		if !acquire(t, store, "second", time.Second).Granted {
			t.Error("refused when the TTL was over")
		}
	})
}

func TestFencesIncreaseWhileTheClockStandsStillOrGoesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		var last int64
		grant := func(after string) {
			fence := acquire(t, store, "token", time.Second).Fence
			if fence <= last {
				t.Errorf("after %s: fence %d follows %d", after, fence, last)
			}
			last = fence
			store.Release(t.Context(), driver.ReleaseRequest{Name: "job", Token: "token"})
		}
		grant("nothing")
		grant("a release")
		store.Wipe()
		grant("a wipe")
		store.Advance(-time.Hour)
		grant("an hour back")
	})
}

func TestAWipeTellsNobody(t *testing.T) {
	store := memstore.New()
	acquire(t, store, "token", time.Minute)
	wake, stop := store.Subscribe("job")
	defer stop()
	<-wake
	store.Wipe()
	select {
	case <-wake:
		t.Error("a subscriber was told of a wipe")
	default:
	}
}

// TestAFaultLosesTheRequestOrTheReply fails each operation in both ways, and
// looks whether it was carried out.
func TestAFaultLosesTheRequestOrTheReply(t *testing.T) {
	lost := errors.New("lost")
	for _, late := range []bool{false, true} {
		store := memstore.New()
		fail := func(want string) {
			store.SetFault(func(op string) memstore.Fault {
				switch {
				case op != want:
					return memstore.Fault{}
				case late:
					return memstore.Fault{After: lost}
				default:
					return memstore.Fault{Before: lost}
				}
			})
		}
		for op, run := range operations(t.Context(), store) {
			fail("none")
			acquire(t, store, "old", time.Minute)
			fail(op)
			err := run()
			fail("none")
			if !errors.Is(err, lost) {
				t.Errorf("%s: error %v, want the fault's", op, err)
			}
			state, _ := store.Inspect(t.Context(), "job")
			if done := carriedOut(op, state); done != late && op != "inspect" && op != "list" {
				t.Errorf("%s was carried out: %v, want %v", op, done, late)
			}
			store.Wipe()
		}
		store.SetFault(nil)
		acquire(t, store, "old", time.Minute)
	}
}

// operations returns one request of each kind, on a name held by "old" for a
// minute.
func operations(ctx context.Context, store *memstore.Store) map[string]func() error {
	return map[string]func() error{
		"acquire": func() error {
			_, err := store.Acquire(ctx, driver.AcquireRequest{Name: "job", Token: "old", TTL: time.Hour})
			return err
		},
		"enqueue": func() error {
			_, err := store.Enqueue(ctx, driver.QueueRequest{AcquireRequest: driver.AcquireRequest{Name: "job", Token: "old", TTL: time.Hour}})
			return err
		},
		"extend": func() error {
			return store.Extend(ctx, []driver.ExtendRequest{{Name: "job", Token: "old", TTL: time.Hour}})[0].Err
		},
		"release": func() error {
			_, err := store.Release(ctx, driver.ReleaseRequest{Name: "job", Token: "old"})
			return err
		},
		"inspect": func() error {
			_, err := store.Inspect(ctx, "job")
			return err
		},
		"list": func() (err error) {
			for _, err = range store.List(ctx, "*") {
			}
			return err
		},
	}
}

func carriedOut(op string, state driver.State) bool {
	if op == "release" {
		return len(state.Holders) == 0
	}
	return len(state.Holders) == 1 && state.Holders[0].Left > time.Minute
}
