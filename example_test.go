package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/holdfastlock/holdfast"
	"github.com/holdfastlock/holdfast/memstore"
)

func Example() {
	ctx := context.Background()
	store := memstore.New() // or redisstore.New, pgstore.Open, sqlitestore.Open
	locker, err := holdfast.New(store, holdfast.Config{TTL: 30 * time.Second})
	if err != nil {
		panic(err)
	}
	defer locker.Close(ctx)

	err = locker.Do(ctx, "nightly-report", func(ctx context.Context, lease *holdfast.Lease) error {
		// ctx ends the moment the lease can't be trusted any more.
		fmt.Println("reporting, fence given:", lease.Fence() > 0)
		return nil
	}, holdfast.WithMaxWait(0))

	var held *holdfast.HeldError
	switch {
	case errors.As(err, &held):
		fmt.Println("another host does it:", held.Holder.Owner())
	case errors.Is(err, holdfast.ErrLost):
		fmt.Println("the lock was lost while the report ran:", err)
	case err != nil:
		fmt.Println("no lock, or no report:", err)
	}
	// Output: reporting, fence given: true
}

// One of many requests that miss a cache entry rebuilds it. A double rebuild
// would waste work and do no harm, so the lock alone is enough.
func ExampleLocker_Do_cacheRebuild() {
	ctx := context.Background()
	locker, _ := holdfast.New(memstore.New(), holdfast.Config{})
	defer locker.Close(ctx)

	var cache sync.Map
	var rebuilds int
	get := func(key string) (any, error) {
		if value, ok := cache.Load(key); ok {
			return value, nil
		}
		err := locker.Do(ctx, "cache:"+key, func(ctx context.Context, _ *holdfast.Lease) error {
			if _, ok := cache.Load(key); ok {
				return nil // rebuilt while we waited
			}
			rebuilds++
			cache.Store(key, "expensive value")
			return nil
		}, holdfast.WithTTL(10*time.Second), holdfast.WithMaxWait(5*time.Second))
		value, _ := cache.Load(key)
		return value, err
	}

	var requests sync.WaitGroup
	for range 50 {
		requests.Go(func() {
			if _, err := get("front-page"); err != nil {
				fmt.Println(err)
			}
		})
	}
	requests.Wait()
	fmt.Println("rebuilt", rebuilds, "time")
	// Output: rebuilt 1 time
}

// Two writers at once would corrupt the resource, and a writer can be paused
// for longer than its lease. So the resource checks the fence with each write.
func ExampleLocker_Do_externalWriter() {
	ctx := context.Background()
	store := memstore.New()
	locker, _ := holdfast.New(store, holdfast.Config{})
	defer locker.Close(ctx)

	// The resource remembers the largest fence, and refuses smaller ones.
	var highest int64
	write := func(fence int64, text string) error {
		if fence < highest {
			return fmt.Errorf("refused %q: fence is stale", text)
		}
		highest = fence
		fmt.Printf("wrote %q\n", text)
		return nil
	}

	err := locker.Do(ctx, "printer", func(ctx context.Context, first *holdfast.Lease) error {
		// This writer is paused past its TTL; meanwhile another has its turn.
		store.Advance(time.Minute)
		second, err := locker.TryAcquire(ctx, "printer")
		if err != nil {
			return err
		}
		defer second.Release(ctx)
		if err := write(second.Fence(), "from the second"); err != nil {
			return err
		}
		return write(first.Fence(), "from the first, too late")
	})
	fmt.Println(errors.Is(err, holdfast.ErrLost))
	fmt.Println(err)
	// Output:
	// wrote "from the second"
	// true
	// refused "from the first, too late": fence is stale
	// lock "printer" was lost: it is no longer in the store: expired, evicted, deleted or wiped
}

// TryAcquire asks once and returns a lease, for when the work is not one function.
func ExampleLocker_TryAcquire() {
	ctx := context.Background()
	store := memstore.New()
	first, _ := holdfast.New(store, holdfast.Config{Owner: "host-1/4711"})
	second, _ := holdfast.New(store, holdfast.Config{Owner: "host-2/4712"})
	defer first.Close(ctx)
	defer second.Close(ctx)

	lease, err := first.TryAcquire(ctx, "reindex", holdfast.WithPurpose("after the import"))
	if err != nil {
		panic(err)
	}
	_, err = second.TryAcquire(ctx, "reindex")
	var held *holdfast.HeldError
	if errors.As(err, &held) {
		fmt.Printf("held by %s: %s\n", held.Holder.Owner(), held.Holder.Purpose)
	}
	fmt.Println("released:", lease.Release(ctx))
	// Output:
	// held by host-1/4711: after the import
	// released: <nil>
}
