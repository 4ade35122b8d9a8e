package fence_test

import (
	"context"
	"slices"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/holdfastlock/holdfast/fence"
	"github.com/holdfastlock/holdfast/fence/internal/fencetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConformanceOfMemory(t *testing.T) {
	var memory fence.Memory
	var mu sync.Mutex // of the map, not of the lists: the Memory guards those
	lists := map[string]*[]int64{}
	list := func(resource string) *[]int64 {
		mu.Lock()
		defer mu.Unlock()
		if lists[resource] == nil {
			lists[resource] = new([]int64)
		}
		return lists[resource]
	}
	fencetest.Run(t, fencetest.Resources{
		Touch: memory.Touch,
		Append: func(ctx context.Context, resource, owner string, shown int64, between func() error) error {
			return memory.Do(ctx, resource, owner, shown, func(context.Context) error {
				if err := between(); err != nil {
					return err
				}
				at := list(resource)
				*at = append(*at, shown)
				return nil
			})
		},
		List: func(_ *testing.T, resource string) []int64 { return slices.Clone(*list(resource)) },
	})
}

func TestTheNewestFenceOfEachResourceIsToBeSeen(t *testing.T) {
	var memory fence.Memory
	for resource, shown := range map[string]int64{"report": 42, "invoice": 41} {
		if err := memory.Touch(t.Context(), resource, "a", shown); err != nil {
			t.Fatal(err)
		}
	}
	if report, other := memory.Newest("report"), memory.Newest("unseen"); report != 42 || other != 0 {
		t.Errorf("the newest fences are %d and %d, want 42 and 0", report, other)
	}
}
