package fencetest

import (
	"errors"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/holdfastlock/holdfast/fence"
)

// contention lets many holders write at the same time, each with a fence that
// was granted before it set out, so that they arrive in any order.
func (s suite) contention(t *testing.T) {
	const name, holders, writes = "contention", 8, 15
	var granted atomic.Int64
	var mu sync.Mutex
	var accepted []int64
	var all sync.WaitGroup
	for i := range holders {
		all.Go(func() {
			for range writes {
				mine := granted.Add(1)
				switch err := s.Append(t.Context(), name, strconv.Itoa(i), mine, nothing); {
				case err == nil:
					mu.Lock()
					accepted = append(accepted, mine)
					mu.Unlock()
				case !errors.Is(err, fence.ErrStale):
					t.Errorf("fence %d: %v", mine, err)
				}
			}
		})
	}
	all.Wait()
	list := s.List(t, name)
	if !slices.IsSorted(list) {
		t.Errorf("fences were accepted in the order %v", list)
	}
	slices.Sort(accepted)
	if !slices.Equal(list, accepted) {
		t.Errorf("it contains %v, but these were accepted: %v", list, accepted)
	}
	if n := len(list); n == 0 || list[n-1] != holders*writes {
		t.Errorf("the largest fence was not accepted: %v", list)
	}
}
