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

// keptResult is what many locks cost that are held and kept alive.
type keptResult struct {
	Library          string
	Leases           int
	TTL              time.Duration
	Memory           float64 // bytes of the client for all of them: heap and stacks
	ServerMemory     float64 // bytes of the server for all of them
	Hold             time.Duration
	Sent, All        int           // commands in that time: sent by the client, run by the server
	GoroutinesBefore int           // of the connected client that holds nothing
	GoroutinesWhile  int           // the most seen
	CPU              time.Duration // of the client's process
	Lost             int           // gone from the server, or told by a release
}

func measureKeepalive(ctx context.Context, s *server, p plan) ([]keptResult, error) {
	var results []keptResult
	for _, lib := range p.chosen(only("holdfast", "rueidislock")) {
		r, err := keepAlive(ctx, s, p, lib)
		if err != nil {
			return nil, fmt.Errorf("keepalive: %s: %w", lib.name, err)
		}
		results = append(results, *r)
	}
	return results, nil
}

func keepAlive(ctx context.Context, s *server, p plan, lib library) (*keptResult, error) {
	if err := s.flush(ctx); err != nil {
		return nil, err
	}
	l, err := lib.open(ctx, s.addr, p.ttl)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	if err := warmUp(ctx, l, "warm"); err != nil {
		return nil, err
	}
	r := &keptResult{Library: lib.name, Leases: p.leases, TTL: p.ttl, GoroutinesBefore: runtime.NumGoroutine()}
	memory, server := liveMemory(), s.usedMemory(ctx)
	releases, err := acquireMany(ctx, l, p.leases)
	if err != nil {
		return nil, err
	}
	r.Memory = float64(liveMemory()) - float64(memory)
	r.ServerMemory = s.usedMemory(ctx) - server
	if err := r.watch(ctx, s, lib, p.hold); err != nil {
		return nil, err
	}
	return r, r.releaseMany(ctx, s, lib, releases)
}

// watch lets the locks be kept alive and counts what that costs.
func (r *keptResult) watch(ctx context.Context, s *server, lib library, hold time.Duration) error {
	if err := s.resetCounts(ctx); err != nil {
		return err
	}
	before := readUsage()
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
	r.Hold, r.CPU = used.wall, used.cpu
	counted, err := s.counts(ctx)
	r.Sent, r.All = lib.sent(counted), counted.total()
	return err
}

// atATime is how many locks are acquired or released at a time.
const atATime = 64

func acquireMany(ctx context.Context, l locks, n int) ([]func(context.Context) error, error) {
	releases := make([]func(context.Context) error, n)
	err := inParallel(n, func(i int) (err error) {
		releases[i], err = l.Acquire(ctx, fmt.Sprint("kept:", i))
		return err
	})
	return releases, err
}

// releaseMany finds out by the server whether each lock was held until now.
func (r *keptResult) releaseMany(ctx context.Context, s *server, lib library, releases []func(context.Context) error) error {
	keys := s.admin.B().Keys().Pattern(lib.prefix + "kept:*").Build()
	held, err := s.admin.Do(ctx, keys).AsStrSlice()
	if err != nil {
		return err
	}
	var told atomic.Int64
	err = inParallel(len(releases), func(i int) error {
		err := releases[i](ctx)
		if errors.Is(err, holdfast.ErrLost) {
			told.Add(1)
			return nil
		}
		return err
	})
	r.Lost = max(r.Leases-len(held), int(told.Load()))
	return err
}

// inParallel calls do with 0 to n-1 on a few goroutines and returns an error of
// one of them.
func inParallel(n int, do func(i int) error) error {
	var next atomic.Int64
	var failed atomic.Pointer[error]
	var working sync.WaitGroup
	for range min(atATime, n) {
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
