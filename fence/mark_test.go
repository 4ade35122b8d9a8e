package fence_test

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/holdfastlock/holdfast/fence"
	"github.com/holdfastlock/holdfast/fence/internal/fencetest"
)

// object is what an object store keeps under a key: a content that has the mark
// in it, and the generation that each write changes.
type object struct {
	mark       fence.Mark
	list       []int64
	generation int
}

// objects is a store that compares generations before it writes.
type objects struct {
	mu  sync.Mutex
	all map[string]object
}

func (o *objects) get(key string) object {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.all[key]
}

func (o *objects) putIf(key string, generation int, next object) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.all[key].generation != generation {
		return false
	}
	next.generation = generation + 1
	o.all[key] = next
	return true
}

// change is the recipe: read, check, write if nobody has written meanwhile, and
// otherwise from the beginning.
func (o *objects) change(ctx context.Context, key, owner string, shown int64, edit func([]int64) []int64) error {
	for ctx.Err() == nil {
		old := o.get(key)
		if err := old.mark.Check(key, owner, shown); err != nil {
			return err
		}
		next := object{mark: fence.Mark{Fence: shown, Owner: owner}, list: edit(slices.Clone(old.list))}
		if o.putIf(key, old.generation, next) {
			return nil
		}
	}
	return ctx.Err()
}

func TestConformanceOfAStoreThatComparesBeforeItWrites(t *testing.T) {
	o := &objects{all: map[string]object{}}
	fencetest.Run(t, fencetest.Resources{
		Touch: func(ctx context.Context, resource, owner string, shown int64) error {
			return o.change(ctx, resource, owner, shown, func(list []int64) []int64 { return list })
		},
		Append: func(ctx context.Context, resource, owner string, shown int64, _ func() error) error {
			return o.change(ctx, resource, owner, shown, func(list []int64) []int64 { return append(list, shown) })
		},
		List:        func(_ *testing.T, resource string) []int64 { return o.get(resource).list },
		Indivisible: true,
	})
}
