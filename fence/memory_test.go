package fence_test

import (
	"errors"
	"slices"
	"strconv"
	"sync"
	"testing"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/holdfastlock/holdfast/fence"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestAStaleFenceIsRefusedWithBothNumbers(t *testing.T) {
	var memory fence.Memory
	accept(t, memory.Touch("report", "b", 42))
	err := memory.Do("report", "a", 41, func() error {
		t.Error("a stale fence made a change")
		return nil
	})
	var stale *fence.StaleError
	if !errors.As(err, &stale) || !errors.Is(err, fence.ErrStale) || errors.Is(err, fence.ErrConflict) {
		t.Fatalf("a stale fence was answered with %v", err)
	}
	if want := (fence.StaleError{Resource: "report", Fence: 41, Newest: 42}); *stale != want {
		t.Errorf("the error is %+v, want %+v", *stale, want)
	}
}

func TestAnEqualFenceOfAnotherOwnerIsAConflict(t *testing.T) {
	var memory fence.Memory
	accept(t, memory.Touch("report", "a", 42))
	err := memory.Touch("report", "b", 42)
	var conflict *fence.ConflictError
	if !errors.As(err, &conflict) || !errors.Is(err, fence.ErrConflict) || errors.Is(err, fence.ErrStale) {
		t.Fatalf("an equal fence was answered with %v", err)
	}
	if want := (fence.ConflictError{Resource: "report", Fence: 42, Owner: "b", First: "a"}); *conflict != want {
		t.Errorf("the error is %+v, want %+v", *conflict, want)
	}
	accept(t, memory.Touch("report", "a", 42))
}

func TestOneHolderMayWriteMoreThanOnce(t *testing.T) {
	var memory fence.Memory
	written := 0
	for range 3 {
		accept(t, memory.Do("report", "a", 41, func() error { written++; return nil }))
	}
	if written != 3 {
		t.Errorf("%d of 3 changes were made", written)
	}
}

func TestATouchShutsOutTheHolderBefore(t *testing.T) {
	var memory fence.Memory
	accept(t, memory.Touch("report", "a", 41))
	accept(t, memory.Touch("report", "b", 42))
	if err := memory.Touch("report", "a", 41); !errors.Is(err, fence.ErrStale) {
		t.Errorf("the holder before was answered with %v", err)
	}
}

func TestResourcesDoNotKnowOfEachOther(t *testing.T) {
	var memory fence.Memory
	accept(t, memory.Touch("report", "b", 42))
	accept(t, memory.Touch("invoice", "a", 41))
	if report, other := memory.Newest("report"), memory.Newest("unseen"); report != 42 || other != 0 {
		t.Errorf("the newest fences are %d and %d, want 42 and 0", report, other)
	}
}

func TestALeaseWithoutFenceIsRefused(t *testing.T) {
	var memory fence.Memory
	for _, none := range []int64{0, -1} {
		if err := memory.Touch("report", "a", none); !errors.Is(err, fence.ErrNoFence) {
			t.Errorf("fence %d was answered with %v", none, err)
		}
	}
}

func TestAChangeThatFailsSaysSoAndItsFenceWasSeen(t *testing.T) {
	var memory fence.Memory
	full := errors.New("disk full")
	if err := memory.Do("report", "b", 42, func() error { return full }); !errors.Is(err, full) {
		t.Errorf("the error is %v, want that of the change", err)
	}
	if err := memory.Touch("report", "a", 41); !errors.Is(err, fence.ErrStale) {
		t.Errorf("a stale fence was answered with %v", err)
	}
}

func TestRefusedFencesChangeNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var memory fence.Memory
		newest := int64(0)
		owner := ""
		for range rapid.IntRange(1, 50).Draw(t, "steps") {
			shown := rapid.Int64Range(-1, 5).Draw(t, "fence")
			by := strconv.Itoa(rapid.IntRange(1, 3).Draw(t, "owner"))
			err := memory.Touch("report", by, shown)
			right := shown > newest || shown == newest && by == owner
			if right != (err == nil) {
				t.Fatalf("fence %d of %s after %d of %s was answered with %v", shown, by, newest, owner, err)
			}
			if err == nil {
				newest, owner = shown, by
			}
			if got := memory.Newest("report"); got != newest {
				t.Fatalf("the newest fence is %d, want %d", got, newest)
			}
		}
	})
}

func TestChangesAreInTheOrderOfFencesUnderConcurrentUse(t *testing.T) {
	var memory fence.Memory
	var accepted []int64 // guarded by the Memory
	var holders sync.WaitGroup
	for i := range int64(50) {
		holders.Go(func() {
			for range 20 {
				_ = memory.Do("report", strconv.FormatInt(i, 10), i+1, func() error {
					accepted = append(accepted, i+1)
					return nil
				})
			}
		})
	}
	holders.Wait()
	if !slices.IsSorted(accepted) || len(accepted) == 0 || accepted[len(accepted)-1] != 50 {
		t.Errorf("fences were accepted in the order %v", accepted)
	}
}

func accept(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("refused: %v", err)
	}
}
