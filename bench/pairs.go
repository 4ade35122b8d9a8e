package main

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// pairsResult is what one adapter did with one number of goroutines.
type pairsResult struct {
	Adapter    string
	Beside     string `json:",omitempty"`
	Goroutines int
	Runs       []pairsRun
	Ratios     []float64 `json:",omitempty"` // to the bare client, by repetition
}

// pairsRun is one measurement.
type pairsRun struct {
	PairsPerSecond float64
	CPUPerPair     time.Duration // of the client's process
	ServerPerPair  time.Duration // CPU time of the server
	AllocsPerPair  float64
	BytesPerPair   float64
	Overlaps       int64
}

// contestant is an adapter that takes part in this run.
type contestant struct {
	adapter
	locks locks
}

// measurePairs lets all adapters take turns, so that what else the machine does
// meets all of them.
func measurePairs(ctx context.Context, s *server, p plan) ([]pairsResult, error) {
	var contestants []contestant
	for _, a := range adapters {
		if len(p.adapters) > 0 && !slices.Contains(p.adapters, a.name) {
			continue
		}
		opened, err := a.open(s.addr, p)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", a.name, err)
		}
		defer opened.Close()
		contestants = append(contestants, contestant{a, opened})
	}
	var results []pairsResult
	for _, goroutines := range p.goroutines {
		level, err := measureLevel(ctx, s, contestants, goroutines, p)
		if err != nil {
			return nil, err
		}
		results = append(results, level...)
	}
	return results, nil
}

func measureLevel(ctx context.Context, s *server, contestants []contestant, goroutines int, p plan) ([]pairsResult, error) {
	results := make([]pairsResult, len(contestants))
	for i, c := range contestants {
		results[i] = pairsResult{Adapter: c.name, Beside: c.beside, Goroutines: goroutines}
		if _, err := runPairs(ctx, s, c.locks, goroutines, p.duration/10); err != nil {
			return nil, fmt.Errorf("%s: %w", c.name, err)
		}
	}
	for rep := range p.reps {
		for turn := range contestants {
			i := (turn + rep) % len(contestants) // nobody always follows the same one
			run, err := runPairs(ctx, s, contestants[i].locks, goroutines, p.duration)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", contestants[i].name, err)
			}
			results[i].Runs = append(results[i].Runs, run)
		}
	}
	for i := range results {
		results[i].compare(results)
	}
	return results, nil
}

// compare divides each run by that of the bare client in the same repetition.
func (p *pairsResult) compare(all []pairsResult) {
	for _, bare := range all {
		if p.Beside != "" && bare.Adapter == p.Beside {
			for i, run := range p.Runs {
				p.Ratios = append(p.Ratios, run.PairsPerSecond/bare.Runs[i].PairsPerSecond)
			}
		}
	}
}

// runPairs lets each goroutine acquire and release its own key until the time
// is over, and counts.
func runPairs(ctx context.Context, s *server, l locks, goroutines int, d time.Duration) (pairsRun, error) {
	workers := make([]worker, goroutines)
	for i := range workers {
		workers[i].key = fmt.Sprint("own:", i)
	}
	var over atomic.Bool
	var working sync.WaitGroup
	runtime.GC() // what others left is not this one's
	before, server := readUsage(), s.cpu(ctx)
	for i := range workers {
		working.Go(func() { workers[i].work(l, &over) })
	}
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
	over.Store(true)
	working.Wait()
	used := readUsage().since(before)
	server = s.cpu(ctx) - server
	if ctx.Err() != nil {
		return pairsRun{}, ctx.Err()
	}
	var pairs, overlaps int64
	for i := range workers {
		if workers[i].err != nil {
			return pairsRun{}, workers[i].err
		}
		pairs += workers[i].pairs
		overlaps += workers[i].overlaps
	}
	return pairsRun{
		PairsPerSecond: float64(pairs) / used.wall.Seconds(),
		CPUPerPair:     used.cpu / time.Duration(max(pairs, 1)),
		ServerPerPair:  server / time.Duration(max(pairs, 1)),
		AllocsPerPair:  float64(used.allocs) / float64(pairs),
		BytesPerPair:   float64(used.bytes) / float64(pairs),
		Overlaps:       overlaps,
	}, nil
}

// worker is one goroutine with its key.
type worker struct {
	key      string
	holders  atomic.Int32 // of the key, now
	overlaps int64
	pairs    int64
	err      error
}

// work calls with a context that has no end, which costs nobody anything.
func (w *worker) work(l locks, over *atomic.Bool) {
	ctx := context.Background()
	for !over.Load() {
		release, err := l.Acquire(ctx, w.key)
		if err != nil {
			w.err = err
			return
		}
		if w.holders.Add(1) > 1 {
			w.overlaps++
		}
		w.holders.Add(-1)
		if err := release(ctx); err != nil {
			w.err = err
			return
		}
		w.pairs++
	}
}
