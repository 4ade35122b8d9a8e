package once

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfastlock/holdfast"
	"github.com/holdfastlock/holdfast/driver"
	"github.com/holdfastlock/holdfast/memstore"
)

const ttl = 10 * time.Second

// host returns a locker, as another process would have one.
func host(t testing.TB, store driver.Store, owner string) *holdfast.Locker {
	t.Helper()
	locker, err := holdfast.New(store, holdfast.Config{Owner: owner, TTL: ttl})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { locker.Close(context.Background()) })
	return locker
}

// inBubble runs a test in fake time with one store.
func inBubble(t *testing.T, test func(t *testing.T, store *memstore.Store)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, memstore.New()) })
}

func works(context.Context, Attempt) error { return nil }

// want checks what a call of Run came to.
func want(t *testing.T, result Result, err error, outcome Outcome, kind error) {
	t.Helper()
	if result.Outcome != outcome || !errors.Is(err, kind) || kind == nil && err != nil {
		t.Errorf("outcome %q, error %v, want %q, %v", result.Outcome, err, outcome, kind)
	}
}

func TestASlotRunsOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, store *memstore.Store) {
		a, b := host(t, store, "a"), host(t, store, "b")
		var seen Attempt
		result, err := Run(t.Context(), a, "job", Every(24*time.Hour), func(_ context.Context, attempt Attempt) error {
			seen = attempt
			return nil
		})
		want(t, result, err, Ran, nil)
		if seen.Slot != "2000-01-01T00:00:00Z" || seen.Number != 1 || seen.Lease.Fence() != result.Run.Fence || !seen.Starts.Equal(result.Starts) {
			t.Errorf("the function saw %+v, the caller %+v", seen, result)
		}
		result, err = Run(t.Context(), b, "job", Every(24*time.Hour), works)
		want(t, result, err, Done, nil)
		if result.Run.Owner() != "a" || result.Run.Phase != driver.Done || result.Run.Ended.IsZero() {
			t.Errorf("done by %+v", result.Run)
		}
		result, err = Run(t.Context(), b, "other", Every(24*time.Hour), works)
		want(t, result, err, Ran, nil)
		time.Sleep(24 * time.Hour)
		result, err = Run(t.Context(), b, "job", Every(24*time.Hour), works)
		want(t, result, err, Ran, nil)
		if state, _ := b.Inspect(t.Context(), "job"); len(state.Holders) != 0 {
			t.Errorf("the job is still held: %+v", state)
		}
		runs, err := Runs(t.Context(), a, "job", 10)
		if err != nil || len(runs) != 2 || runs[0].Owner() != "b" || runs[1].Owner() != "a" {
			t.Errorf("runs %+v, %v", runs, err)
		}
	})
}

// TestFiveHostsWithSkewedClocksRunEachSlotOnce: the hosts' own clocks decide
// when they come, up to three seconds early or late; the store's decides for
// which slot.
func TestFiveHostsWithSkewedClocksRunEachSlotOnce(t *testing.T) {
	for name, opts := range map[string][]Option{"no wait": nil, "standing by": {StandBy(Forever)}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, store *memstore.Store) {
				const slots = 10
				skews := []time.Duration{-3 * time.Second, -1100 * time.Millisecond, 0, 3 * time.Second, 700 * time.Millisecond}
				ran := make(map[string]int)
				var mu sync.Mutex
				var hosts sync.WaitGroup
				begin := time.Now()
				for i, skew := range skews {
					locker := host(t, store, fmt.Sprintf("host-%d", i))
					hosts.Go(func() {
						for slot := 1; slot <= slots; slot++ {
							time.Sleep(time.Until(begin.Add(time.Duration(slot)*time.Minute + skew)))
							_, err := Run(t.Context(), locker, "job", Every(time.Minute), func(_ context.Context, a Attempt) error {
								if time.Now().Before(a.Starts) {
									t.Errorf("slot %s ran at %v", a.Slot, time.Now())
								}
								time.Sleep(time.Millisecond)
								mu.Lock()
								defer mu.Unlock()
								ran[a.Slot]++
								return nil
							}, opts...)
							if err != nil {
								t.Error(err)
							}
						}
					})
				}
				hosts.Wait()
				if len(ran) != slots {
					t.Errorf("%d slots ran, want %d: %v", len(ran), slots, ran)
				}
				for slot, n := range ran {
					if n != 1 {
						t.Errorf("slot %s ran %d times", slot, n)
					}
				}
			})
		})
	}
}

// crash begins the slot on a host that does nothing more, as kill -9 leaves it.
func crash(t *testing.T, store driver.Store, job, slot string, lease time.Duration) driver.Run {
	t.Helper()
	token := driver.NewToken("crashed")
	granted, err := store.Acquire(t.Context(), driver.AcquireRequest{Name: job, Token: token, TTL: lease})
	if err != nil || !granted.Granted {
		t.Fatal(granted, err)
	}
	result, err := store.(driver.SlotKeeper).BeginSlot(t.Context(), driver.BeginRequest{
		Job: job, Slot: slot, Token: token, Fence: granted.Fence,
	})
	if err != nil || result.Verdict != driver.Begun {
		t.Fatal(result, err)
	}
	return result.Run
}

func TestOneOfThoseStandingByTakesOverACrashedRun(t *testing.T) {
	inBubble(t, func(t *testing.T, store *memstore.Store) {
		crashed := crash(t, store, "job", "s", ttl)
		began := time.Now()
		var ran atomic.Int32
		var outcomes sync.Map
		var all sync.WaitGroup
		for i := range 11 {
			locker := host(t, store, fmt.Sprintf("host-%d", i))
			all.Go(func() {
				result, err := Run(t.Context(), locker, "job", Slot("s"), func(_ context.Context, a Attempt) error {
					ran.Add(1)
					if a.Number != 2 || a.Lease.Fence() <= crashed.Fence {
						t.Errorf("attempt %d with fence %d after %d", a.Number, a.Lease.Fence(), crashed.Fence)
					}
					if late := time.Since(began); late > ttl+time.Second {
						t.Errorf("taken over after %v", late)
					}
					return nil
				}, StandBy(Forever))
				if err != nil {
					t.Error(err)
				}
				n, _ := outcomes.LoadOrStore(result.Outcome, new(atomic.Int32))
				n.(*atomic.Int32).Add(1)
			})
		}
		all.Wait()
		stoodBy, _ := outcomes.Load(StoodBy)
		if ran.Load() != 1 || stoodBy == nil || stoodBy.(*atomic.Int32).Load() != 10 {
			t.Errorf("%d ran, and of the others %v stood by", ran.Load(), stoodBy)
		}
	})
}

func TestWithoutStandingByARunElsewhereIsSkipped(t *testing.T) {
	inBubble(t, func(t *testing.T, store *memstore.Store) {
		a, b := host(t, store, "a"), host(t, store, "b")
		_, err := Run(t.Context(), a, "job", Slot("1"), func(ctx context.Context, _ Attempt) error {
			result, err := Run(ctx, b, "job", Slot("1"), works)
			want(t, result, err, Running, nil)
			result, err = Run(ctx, b, "job", Slot("2"), works)
			want(t, result, err, 0, holdfast.ErrHeld)
			result, err = Run(ctx, b, "job", Slot("1"), works, StandBy(time.Second))
			want(t, result, err, Running, holdfast.ErrHeld)
			time.Sleep(5 * ttl) // the lease is kept alive
			result, err = Run(ctx, b, "job", Slot("1"), works)
			want(t, result, err, Running, nil)
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
}

// TestAHolderThatHasNotBegunCountsAsRunning: between its lock and its record
// another call must not take a slot for a stranger's.
func TestAHolderThatHasNotBegunCountsAsRunning(t *testing.T) {
	inBubble(t, func(t *testing.T, store *memstore.Store) {
		a, b := host(t, store, "a"), host(t, store, "b")
		for held, asked := range map[string]string{"10": "1", `a" b`: "a"} {
			began := false
			store.SetFault(func(op string) memstore.Fault {
				if op == "begin slot" && !began {
					began = true
					result, err := Run(t.Context(), b, "job", Slot(held), works, Purpose("why"))
					want(t, result, err, Running, nil)
					result, err = Run(t.Context(), b, "job", Slot(asked), works)
					want(t, result, err, 0, holdfast.ErrHeld)
				}
				return memstore.Fault{}
			})
			result, err := Run(t.Context(), a, "job", Slot(held), works, Purpose(strings.Repeat("long", 100)))
			want(t, result, err, Ran, nil)
		}
	})
}

func TestALaterCallTakesACrashedRunOver(t *testing.T) {
	inBubble(t, func(t *testing.T, store *memstore.Store) {
		crash(t, store, "job", "s", ttl)
		locker := host(t, store, "a")
		result, err := Run(t.Context(), locker, "job", Slot("s"), works)
		want(t, result, err, Running, nil)
		time.Sleep(ttl)
		result, err = Run(t.Context(), locker, "job", Slot("s"), works)
		want(t, result, err, Ran, nil)
		if result.Run.Attempt != 2 {
			t.Errorf("attempt %d", result.Run.Attempt)
		}
	})
}

func TestAtMostOnceLeavesACrashedRunLost(t *testing.T) {
	inBubble(t, func(t *testing.T, store *memstore.Store) {
		crash(t, store, "job", "s", ttl)
		locker := host(t, store, "a")
		for range 2 {
			result, err := Run(t.Context(), locker, "job", Slot("s"), works, AtMostOnce(), StandBy(time.Minute))
			want(t, result, err, Lost, nil)
		}
		result, err := Run(t.Context(), locker, "job", Slot("s"), works)
		want(t, result, err, Lost, nil)
	})
}

type exit int

func (e exit) Error() string { return fmt.Sprintf("exit status\n%d", int(e)) }
func (e exit) ExitCode() int { return int(e) }

func TestAFailedRunIsDoneUnlessAskedOtherwise(t *testing.T) {
	inBubble(t, func(t *testing.T, store *memstore.Store) {
		locker := host(t, store, "a")
		fails := func(context.Context, Attempt) error { return fmt.Errorf("job: %w", exit(3)) }
		result, err := Run(t.Context(), locker, "job", Slot("s"), fails)
		want(t, result, err, Ran, exit(3))
		result, err = Run(t.Context(), locker, "job", Slot("s"), works)
		want(t, result, err, Done, nil)
		if result.Run.Code != 3 || result.Run.Note != "job: exit status 3" {
			t.Errorf("code %d, note %q", result.Run.Code, result.Run.Note)
		}
		result, err = Run(t.Context(), locker, "job", Slot("s"), fails, RetryFailed(), MaxAttempts(2))
		want(t, result, err, Ran, exit(3))
		result, err = Run(t.Context(), locker, "job", Slot("s"), works, RetryFailed(), MaxAttempts(2))
		want(t, result, err, Done, nil)
		result, err = Run(t.Context(), locker, "job", Slot("s"), works, RetryFailed())
		want(t, result, err, Ran, nil)
		result, err = Run(t.Context(), locker, "job", Slot("s"), works, RetryFailed())
		want(t, result, err, Done, nil)
		if result.Run.Attempt != 3 {
			t.Errorf("attempt %d", result.Run.Attempt)
		}
	})
}

func TestWorkThatWasNotDoneIsLeftToTheNextAttempt(t *testing.T) {
	inBubble(t, func(t *testing.T, store *memstore.Store) {
		a, b := host(t, store, "a"), host(t, store, "b")
		result, err := Run(t.Context(), a, "job", Slot("x"), func(context.Context, Attempt) error {
			return fmt.Errorf("interrupted: %w", ErrNotDone)
		})
		want(t, result, err, Ran, ErrNotDone)
		result, err = Run(t.Context(), b, "job", Slot("x"), works) // at once: the lock is free
		want(t, result, err, Ran, nil)
		if result.Run.Attempt != 2 {
			t.Errorf("attempt %d, want 2", result.Run.Attempt)
		}
	})
}

func TestAnEarlyCallWaitsForItsSlotByTheStoresClock(t *testing.T) {
	inBubble(t, func(t *testing.T, store *memstore.Store) {
		locker := host(t, store, "a")
		store.Advance(-30 * time.Second) // it is 23:59:30 there
		midnight := time.Now()           // of the new day, which has begun here
		began := time.Now()
		time.AfterFunc(10*time.Second, func() { store.Advance(-5 * time.Second) })
		result, err := Run(t.Context(), locker, "job", Every(24*time.Hour), works)
		want(t, result, err, Ran, nil)
		if waited := time.Since(began); waited != 35*time.Second || !result.Starts.Equal(midnight) {
			t.Errorf("it waited %v for %v", waited, result.Starts)
		}
		time.Sleep(24*time.Hour - 40*time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		result, err = Run(ctx, locker, "job", Every(24*time.Hour), works)
		want(t, result, err, 0, context.DeadlineExceeded)
	})
}

func TestACallPastTheStartDeadlineIsSkipped(t *testing.T) {
	inBubble(t, func(t *testing.T, store *memstore.Store) {
		locker := host(t, store, "a")
		time.Sleep(10 * time.Minute)
		result, err := Run(t.Context(), locker, "job", Every(time.Hour), works, StartDeadline(10*time.Minute-1))
		want(t, result, err, Late, nil)
		result, err = Run(t.Context(), locker, "job", Every(time.Hour), works, StartDeadline(10*time.Minute))
		want(t, result, err, Ran, nil)
		time.Sleep(5 * time.Minute)
		result, err = Run(t.Context(), locker, "job", Every(time.Hour), works, StartDeadline(time.Minute))
		want(t, result, err, Done, nil)

		crash(t, store, "other", result.Slot, ttl) // taken over too late
		result, err = Run(t.Context(), locker, "other", Every(time.Hour), works, StandBy(Forever), StartDeadline(15*time.Minute+ttl/2))
		want(t, result, err, Late, nil)
	})
}

func TestContradictingOptionsAreRefused(t *testing.T) {
	inBubble(t, func(t *testing.T, store *memstore.Store) {
		locker := host(t, store, "a")
		for name, opts := range map[string][]Option{
			"stand by not at all":    {StandBy(0)},
			"negative attempts":      {MaxAttempts(-1)},
			"once, and again":        {AtMostOnce(), RetryFailed()},
			"negative deadline":      {StartDeadline(-1)},
			"deadline without begin": {StartDeadline(time.Hour)},
		} {
			if result, err := Run(t.Context(), locker, "job", Slot("s"), works, opts...); !errors.Is(err, holdfast.ErrMisconfigured) || result.Outcome != 0 {
				t.Errorf("%s: %v, %v", name, result.Outcome, err)
			}
		}
		_, err := Run(t.Context(), locker, "job", Schedule{}, works)
		want(t, Result{}, err, 0, holdfast.ErrMisconfigured)
		_, err = Run(t.Context(), locker, "~job", Slot("s"), works)
		var name *driver.NameError
		if !errors.As(err, &name) {
			t.Errorf("a bad name: %v", err)
		}
	})
}

// plain is a store that keeps no slots.
type plain struct{ driver.Store }

func TestAStoreThatRemembersNoSlotsIsSaidToBeOne(t *testing.T) {
	inBubble(t, func(t *testing.T, store *memstore.Store) {
		locker := host(t, plain{store}, "a")
		_, err := Run(t.Context(), locker, "job", Slot("s"), works)
		want(t, Result{}, err, 0, driver.ErrUnsupported)
		_, err = Runs(t.Context(), locker, "job", 1)
		want(t, Result{}, err, 0, driver.ErrUnsupported)
	})
}
