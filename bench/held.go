package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfastlock/holdfast"
)

// heldResult is what many leases cost that are held and kept alive.
type heldResult struct {
	Leases           int
	TTL              time.Duration
	HeapPerLease     float64 // bytes of the client
	ServerPerLease   float64 // bytes of the server: the lock and its companion
	Hold             time.Duration
	Counts           counts        // commands in that time
	Extended         int64         // leases extended in that time
	ExtendFailed     int64         // tried again
	Lost             int64         // told as lost, or gone when they were released
	GoroutinesBefore int           // of the connected client that holds nothing
	GoroutinesWhile  int           // the most seen
	CPU              time.Duration // of the client's process
}

// heldEvents counts what the locker tells.
type heldEvents struct{ extended, failed, lost atomic.Int64 }

func (e *heldEvents) events() holdfast.Events {
	return holdfast.Events{
		Extended:     func(holdfast.Event) { e.extended.Add(1) },
		ExtendFailed: func(holdfast.Event) { e.failed.Add(1) },
		Lost:         func(holdfast.Event) { e.lost.Add(1) },
	}
}

func measureHeld(ctx context.Context, s *server, p plan) (*heldResult, error) {
	if err := s.flush(ctx); err != nil {
		return nil, err
	}
	var told heldEvents
	h, err := newHoldfast(s.addr, holdfast.Config{TTL: p.ttl, Events: told.events()})
	if err != nil {
		return nil, err
	}
	defer h.Close()
	if _, err := acquireMany(ctx, h.locker, "warm", 1); err != nil {
		return nil, err
	}
	r := &heldResult{Leases: p.leases, TTL: p.ttl}
	heap, memory := liveHeap(), s.usedMemory(ctx)
	r.GoroutinesBefore = runtime.NumGoroutine()
	leases, err := acquireMany(ctx, h.locker, "held", p.leases)
	if err != nil {
		return nil, err
	}
	r.HeapPerLease = (float64(liveHeap()) - float64(heap)) / float64(p.leases)
	r.ServerPerLease = (s.usedMemory(ctx) - memory) / float64(p.leases)
	if err := r.watch(ctx, s, &told, p.hold); err != nil {
		return nil, err
	}
	r.Lost = told.lost.Load()
	return r, r.releaseMany(ctx, leases)
}

// watch lets the leases be kept alive and counts what that costs.
func (r *heldResult) watch(ctx context.Context, s *server, told *heldEvents, hold time.Duration) error {
	if err := s.resetCounts(ctx); err != nil {
		return err
	}
	extended, before := told.extended.Load(), readUsage()
	end := time.After(hold)
	for over := false; !over; {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-end:
			over = true
		case <-time.After(50 * time.Millisecond):
			r.GoroutinesWhile = max(r.GoroutinesWhile, runtime.NumGoroutine())
		}
	}
	used := readUsage().since(before)
	r.Extended, r.ExtendFailed = told.extended.Load()-extended, told.failed.Load()
	r.Hold, r.CPU = used.wall, used.cpu
	var err error
	r.Counts, err = s.counts(ctx)
	return err
}

// workersOfMany is how many leases are acquired or released at a time.
const workersOfMany = 64

// acquireMany returns the leases in the order of their names.
func acquireMany(ctx context.Context, locker *holdfast.Locker, name string, n int) ([]*holdfast.Lease, error) {
	leases := make([]*holdfast.Lease, n)
	err := inParallel(n, func(i int) (err error) {
		leases[i], err = locker.Acquire(ctx, fmt.Sprint(name, ":", i))
		return err
	})
	return leases, err
}

// releaseMany finds out by the server whether each lease was held until now.
func (r *heldResult) releaseMany(ctx context.Context, leases []*holdfast.Lease) error {
	var gone atomic.Int64
	err := inParallel(len(leases), func(i int) error {
		err := leases[i].Release(ctx)
		if errors.Is(err, holdfast.ErrLost) {
			gone.Add(1)
			return nil
		}
		return err
	})
	r.Lost = max(r.Lost, gone.Load())
	return err
}

// inParallel calls do with 0 to n-1 on a few goroutines and returns an error of
// one of them.
func inParallel(n int, do func(i int) error) error {
	var next atomic.Int64
	var failed atomic.Pointer[error]
	var working sync.WaitGroup
	for range min(workersOfMany, n) {
		working.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && failed.Load() == nil; i = int(next.Add(1)) - 1 {
				if err := do(i); err != nil {
					failed.Store(&err)
				}
			}
		})
	}
	working.Wait()
	if err := failed.Load(); err != nil {
		return *err
	}
	return nil
}

// usedMemory returns the bytes that the server has allocated, or 0 if it does
// not say.
func (s *server) usedMemory(ctx context.Context) float64 {
	lines, err := s.info(ctx, "memory")
	if err != nil {
		return 0
	}
	used, _ := strconv.ParseFloat(lines["used_memory"], 64)
	return used
}
