package once

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfastlock/holdfast"
	"github.com/holdfastlock/holdfast/driver"
	"github.com/holdfastlock/holdfast/memstore"
)

var errLine = &driver.Error{Kind: driver.ErrUnreachable, Err: errors.New("the line is down")}

func known(t *testing.T, store *memstore.Store, job, slot string) driver.Run {
	t.Helper()
	run, _, err := store.InspectSlot(t.Context(), job, slot)
	if err != nil {
		t.Fatal(err)
	}
	return run
}

// TestAZombieNeitherMarksItsSlotDoneNorFreesItsSuccessor: the store is moved past
// the TTL, which the host, paused, does not notice: to it no time has passed.
func TestAZombieNeitherMarksItsSlotDoneNorFreesItsSuccessor(t *testing.T) {
	inBubble(t, func(t *testing.T, store *memstore.Store) {
		a, b := host(t, store, "a"), host(t, store, "b")
		var zombie sync.WaitGroup
		begun, resume := make(chan struct{}), make(chan struct{})
		zombie.Go(func() {
			result, err := Run(t.Context(), a, "job", Slot("s"), func(context.Context, Attempt) error {
				close(begun)
				<-resume
				return nil
			})
			want(t, result, err, Ran, holdfast.ErrLost)
		})
		<-begun
		first := known(t, store, "job", "s")
		store.Advance(ttl)
		result, err := Run(t.Context(), b, "job", Slot("s"), func(context.Context, Attempt) error {
			close(resume)
			zombie.Wait()
			run := known(t, store, "job", "s")
			if run.Phase != driver.Running || run.Owner() != "b" || run.Attempt != 2 || run.Fence <= first.Fence || run.Left <= 0 {
				t.Errorf("after the zombie's return the run is %+v", run)
			}
			return nil
		})
		want(t, result, err, Ran, nil)
		if run := known(t, store, "job", "s"); run.Phase != driver.Done || run.Owner() != "b" {
			t.Errorf("done by %+v", run)
		}
	})
}

// TestARunIsStoppedBeforeItIsTakenOver: the host is cut off from the store; its
// function's context ends before the other host begins.
func TestARunIsStoppedBeforeItIsTakenOver(t *testing.T) {
	inBubble(t, func(t *testing.T, store *memstore.Store) {
		a, b := host(t, store, "a"), host(t, store, "b")
		var stopped, begun time.Time
		started := make(chan struct{})
		var cutOff sync.WaitGroup
		cutOff.Go(func() {
			result, err := Run(t.Context(), a, "job", Slot("s"), func(ctx context.Context, _ Attempt) error {
				store.SetFault(func(op string) memstore.Fault {
					if op == "extend" {
						return memstore.Fault{Before: errLine}
					}
					return memstore.Fault{}
				})
				close(started)
				<-ctx.Done()
				stopped = time.Now()
				if !errors.Is(context.Cause(ctx), holdfast.ErrLost) {
					t.Errorf("the context ended with %v", context.Cause(ctx))
				}
				return ctx.Err()
			})
			want(t, result, err, Ran, holdfast.ErrLost)
			want(t, result, err, Ran, context.Canceled)
		})
		<-started
		result, err := Run(t.Context(), b, "job", Slot("s"), func(context.Context, Attempt) error {
			begun = time.Now()
			return nil
		}, StandBy(Forever))
		want(t, result, err, Ran, nil)
		cutOff.Wait()
		if stopped.After(begun) || result.Run.Attempt != 2 {
			t.Errorf("stopped at %v, taken over at %v as attempt %d", stopped, begun, result.Run.Attempt)
		}
	})
}

func TestLostRepliesDoNotCountTwice(t *testing.T) {
	for _, op := range []string{"inspect slot", "acquire", "begin slot", "finish slot", "release"} {
		inBubble(t, func(t *testing.T, store *memstore.Store) {
			lost := 0
			store.SetFault(func(at string) memstore.Fault {
				if at == op && lost < 3 {
					lost++
					return memstore.Fault{After: errLine}
				}
				return memstore.Fault{}
			})
			ran := 0
			result, err := Run(t.Context(), host(t, store, "a"), "job", Slot("s"), func(context.Context, Attempt) error {
				ran++
				return nil
			})
			want(t, result, err, Ran, nil)
			if run := known(t, store, "job", "s"); ran != 1 || lost != 3 || run.Phase != driver.Done || run.Attempt != 1 {
				t.Errorf("%s: ran %d times, %d replies lost, %+v", op, ran, lost, run)
			}
		})
	}
}

func TestASlotIsMarkedDoneHoweverLongThatTakes(t *testing.T) {
	inBubble(t, func(t *testing.T, store *memstore.Store) {
		down := time.Now().Add(5 * ttl) // for what is not a renewal
		store.SetFault(func(op string) memstore.Fault {
			if op == "finish slot" && time.Now().Before(down) {
				return memstore.Fault{Before: errLine}
			}
			return memstore.Fault{}
		})
		result, err := Run(t.Context(), host(t, store, "a"), "job", Slot("s"), works)
		want(t, result, err, Ran, nil)
		if run := known(t, store, "job", "s"); run.Phase != driver.Done {
			t.Errorf("the run is %+v", run)
		}
	})
}

func TestAnUnreachableStoreIsNeitherDoneNorRunning(t *testing.T) {
	for _, op := range []string{"inspect slot", "acquire", "begin slot"} {
		inBubble(t, func(t *testing.T, store *memstore.Store) {
			store.SetFault(func(at string) memstore.Fault {
				if at == op {
					return memstore.Fault{Before: errLine}
				}
				return memstore.Fault{}
			})
			result, err := Run(t.Context(), host(t, store, "a"), "job", Slot("s"), works)
			want(t, result, err, 0, holdfast.ErrUnreachable)
			store.SetFault(nil)
			synctest.Wait()
			if state, _ := store.Inspect(t.Context(), "job"); len(state.Holders) != 0 {
				t.Errorf("%s: the job is left held: %+v", op, state)
			}
		})
	}
}

func TestACancelledRunIsDoneAsItEnded(t *testing.T) {
	inBubble(t, func(t *testing.T, store *memstore.Store) {
		ctx, cancel := context.WithCancel(t.Context())
		result, err := Run(ctx, host(t, store, "a"), "job", Slot("s"), func(ctx context.Context, _ Attempt) error {
			cancel()
			<-ctx.Done()
			return ctx.Err()
		})
		want(t, result, err, Ran, context.Canceled)
		if run := known(t, store, "job", "s"); run.Phase != driver.Done || run.Code != 1 || run.Note != "context canceled" {
			t.Errorf("the run is %+v", run)
		}
	})
}

func TestAPanicLeavesTheSlotToOthers(t *testing.T) {
	inBubble(t, func(t *testing.T, store *memstore.Store) {
		func() {
			defer func() { _ = recover() }()
			_, _ = Run(t.Context(), host(t, store, "a"), "job", Slot("s"), func(context.Context, Attempt) error { panic("bug") })
			t.Error("the panic was swallowed")
		}()
		result, err := Run(t.Context(), host(t, store, "b"), "job", Slot("s"), works)
		want(t, result, err, Ran, nil)
		if result.Run.Attempt != 2 {
			t.Errorf("attempt %d", result.Run.Attempt)
		}
	})
}

func TestAClosedLockerLeavesTheSlotToOthers(t *testing.T) {
	inBubble(t, func(t *testing.T, store *memstore.Store) {
		a := host(t, store, "a")
		result, err := Run(t.Context(), a, "job", Slot("s"), func(ctx context.Context, _ Attempt) error {
			a.Close(context.Background())
			<-ctx.Done()
			return nil
		})
		want(t, result, err, Ran, holdfast.ErrClosed)
		result, err = Run(t.Context(), a, "job", Slot("s"), works)
		want(t, result, err, 0, holdfast.ErrClosed)
		result, err = Run(t.Context(), host(t, store, "b"), "job", Slot("s"), works)
		want(t, result, err, Ran, nil)
	})
}
