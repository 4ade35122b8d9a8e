package main

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// ownResult is what one library did with one number of goroutines.
type ownResult struct {
	Library    string
	Peer       bool
	Goroutines int
	Runs       []ownRun
}

// ownRun is one measurement.
type ownRun struct {
	PairsPerSecond float64
	CPUPerPair     time.Duration // of the client's process
	ServerPerPair  time.Duration // CPU time of the server
	AllocsPerPair  float64
	BytesPerPair   float64
	SentPerPair    float64 // commands that the client sent
	AllPerPair     float64 // commands that the server ran, those of scripts included
	Overlaps       int64
}

// contestant is a library that takes part in this run.
type contestant struct {
	library
	locks locks
}

// onOneServer is for chosen: those that the workload own compares.
func (p plan) onOneServer() func(library) bool {
	if p.quick {
		return named("holdfast", "holdfast-unfenced")
	}
	return named("holdfast", "holdfast-unfenced", "bare", "bare-unfenced")
}

func measureOwn(ctx context.Context, s *server, p plan, takesPart func(library) bool, levels []int) ([]ownResult, error) {
	var contestants []contestant
	for _, lib := range p.chosen(takesPart) {
		opened, err := lib.open(ctx, s.addr, lockTTL)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", lib.name, err)
		}
		defer opened.Close()
		contestants = append(contestants, contestant{lib, opened})
	}
	var results []ownResult
	for _, goroutines := range levels {
		level, err := measureLevel(ctx, s, contestants, goroutines, p)
		if err != nil {
			return nil, err
		}
		results = append(results, level...)
	}
	return results, nil
}

func measureLevel(ctx context.Context, s *server, contestants []contestant, goroutines int, p plan) ([]ownResult, error) {
	for _, c := range contestants {
		if _, err := runOwn(ctx, s, c, goroutines, p.duration/10); err != nil {
			return nil, fmt.Errorf("%s: %w", c.name, err)
		}
	}
	runs, err := takeTurns(len(contestants), p.reps, func(i int) (ownRun, error) {
		run, err := runOwn(ctx, s, contestants[i], goroutines, p.duration)
		if err != nil {
			err = fmt.Errorf("%s: %w", contestants[i].name, err)
		}
		return run, err
	})
	if err != nil {
		return nil, err
	}
	var results []ownResult
	for i, c := range contestants {
		results = append(results, ownResult{c.name, c.peer, goroutines, runs[i]})
	}
	return results, nil
}

// takeTurns measures n things reps times, taking turns, so that what else the
// machine does meets all of them, and returns the runs of each.
func takeTurns[R any](n, reps int, measure func(i int) (R, error)) ([][]R, error) {
	runs := make([][]R, n)
	for rep := range reps {
		for turn := range n {
			i := (turn + rep) % n // nobody always follows the same one
			run, err := measure(i)
			if err != nil {
				return nil, err
			}
			runs[i] = append(runs[i], run)
		}
	}
	return runs, nil
}

// runOwn lets each goroutine acquire and release its own key until the time is
// over, and counts.
func runOwn(ctx context.Context, s *server, c contestant, goroutines int, d time.Duration) (ownRun, error) {
	owners := make([]owner, goroutines)
	for i := range owners {
		owners[i].key = fmt.Sprint("own:", i)
	}
	var over atomic.Bool
	var working sync.WaitGroup
	if err := s.resetCounts(ctx); err != nil {
		return ownRun{}, err
	}
	runtime.GC() // what others left is not this one's
	before, server := readUsage(), s.cpu(ctx)
	for i := range owners {
		working.Go(func() { owners[i].work(c.locks, &over) })
	}
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
	over.Store(true)
	used := readUsage().since(before)
	server = s.cpu(ctx) - server
	counted, err := s.counts(ctx)
	if err == nil {
		err = ended(&working)
	}
	if err != nil {
		return ownRun{}, err
	}
	var pairs, overlaps int64
	for i := range owners {
		if owners[i].err != nil {
			return ownRun{}, owners[i].err
		}
		pairs += owners[i].pairs
		overlaps += owners[i].overlaps
	}
	n := float64(max(pairs, 1))
	return ownRun{
		PairsPerSecond: float64(pairs) / used.wall.Seconds(),
		CPUPerPair:     time.Duration(float64(used.cpu) / n),
		ServerPerPair:  time.Duration(float64(server) / n),
		AllocsPerPair:  float64(used.allocs) / n,
		BytesPerPair:   float64(used.bytes) / n,
		SentPerPair:    float64(c.sent(counted)) / n,
		AllPerPair:     float64(counted.total()) / n,
		Overlaps:       overlaps,
	}, nil
}

// stuckAfter is when a call for a free key is given up.
const stuckAfter = 20 * time.Second

// ended waits for the goroutines, whose calls have no end of their own.
func ended(working *sync.WaitGroup) error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		working.Wait()
	}()
	select {
	case <-done:
		return nil
	case <-time.After(stuckAfter):
		return fmt.Errorf("a call for a free key did not return within %v", stuckAfter)
	}
}

// owner is one goroutine with its key.
type owner struct {
	key      string
	holders  atomic.Int32 // of the key, now
	overlaps int64
	pairs    int64
	err      error
}

// work calls with a context that has no end, which costs nobody anything.
func (o *owner) work(l locks, over *atomic.Bool) {
	ctx := context.Background()
	for !over.Load() {
		release, err := l.Acquire(ctx, o.key)
		if err != nil {
			o.err = err
			return
		}
		if o.holders.Add(1) > 1 {
			o.overlaps++
		}
		o.holders.Add(-1)
		if err := release(ctx); err != nil {
			o.err = err
			return
		}
		if over.Load() {
			return
		}
		o.pairs++
	}
}
