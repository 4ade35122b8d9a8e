package main

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// contendedKey is the key that everybody wants.
const contendedKey = "one"

// job is what one process does in a contended run.
type job struct {
	Library    string
	Addr       string
	Ledger     string // file name
	Process    int    // its number, from 0
	Goroutines int
	Section    time.Duration // how long each holds the lock; 0: not at all
	Settle     time.Duration // before anything is counted
	Duration   time.Duration // after that
}

// share is what one process did in a contended run.
type share struct {
	Taken      []int64 // acquisitions of each goroutine
	HandOffs   int64   // of them, those after another goroutine
	FromOthers int64   // of them, those after another process
	Overlaps   int64   // the lock had another holder
	Longest    time.Duration
	Latency    histogram // from the call of a release to the return of the next holder's acquire
	CPU        time.Duration
}

// work opens the library, calls ready, waits for begin, and lets the goroutines
// contend.
func (j job) work(ctx context.Context, ready func(), begin <-chan struct{}) (share, error) {
	lib, err := find(j.Library)
	if err != nil {
		return share{}, err
	}
	shared, unmap, err := openLedger(j.Ledger)
	if err != nil {
		return share{}, err
	}
	defer unmap()
	l, err := lib.open(ctx, j.Addr, lockTTL)
	if err != nil {
		return share{}, err
	}
	defer l.Close()
	if err := warmUp(ctx, l, fmt.Sprint("warm:", j.Process)); err != nil {
		return share{}, err
	}
	ready()
	select {
	case <-begin:
	case <-ctx.Done():
		return share{}, ctx.Err()
	}
	return j.contend(ctx, l, shared)
}

// warmUp connects, and makes the server know the scripts.
func warmUp(ctx context.Context, l locks, key string) error {
	release, err := l.Acquire(ctx, key)
	if err != nil {
		return err
	}
	return release(ctx)
}

func (j job) contend(ctx context.Context, l locks, shared *ledger) (share, error) {
	contenders := make([]contender, j.Goroutines)
	limited, stop := context.WithTimeout(context.Background(), j.Settle+j.Duration)
	defer stop()
	defer context.AfterFunc(ctx, stop)()
	// Without a deadline of its own, which some libraries would look at.
	waits, end := context.WithCancel(context.Background())
	from := time.Now().Add(j.Settle)
	var working sync.WaitGroup
	for i := range contenders {
		c := &contenders[i]
		c.number = int32(j.Process<<16 | i + 1)
		working.Go(func() { c.err = c.contend(waits, l, shared, from, j.Section) })
	}
	_ = wait(limited, j.Settle)
	before := readUsage()
	<-limited.Done()
	end()
	cpu := readUsage().since(before).cpu
	working.Wait()
	return sum(contenders, cpu), firstError(ctx, contenders)
}

func sum(contenders []contender, cpu time.Duration) share {
	s := share{CPU: cpu}
	for i := range contenders {
		c := &contenders[i]
		s.Taken = append(s.Taken, c.taken)
		s.HandOffs += c.handOffs
		s.FromOthers += c.fromOthers
		s.Overlaps += c.overlaps
		s.Longest = max(s.Longest, c.longest)
		s.Latency.add(&c.latency)
	}
	return s
}

func firstError(ctx context.Context, contenders []contender) error {
	for i := range contenders {
		if err := contenders[i].err; err != nil {
			return err
		}
	}
	return ctx.Err()
}

// contender is one goroutine that wants the key.
type contender struct {
	number                                int32 // from 1, that of its process in the upper 16 bits
	taken, handOffs, fromOthers, overlaps int64
	longest                               time.Duration
	latency                               histogram
	err                                   error
}

// contend acquires and releases until ctx ends. It counts what it gets between
// from and then, and the wait that is ended.
func (c *contender) contend(ctx context.Context, l locks, shared *ledger, from time.Time, section time.Duration) error {
	for ctx.Err() == nil {
		asked := time.Now()
		release, err := l.Acquire(ctx, contendedKey)
		got := time.Now()
		counts := got.After(from)
		if counts {
			c.longest = max(c.longest, got.Sub(asked))
		}
		over := ctx.Err() != nil
		switch {
		case err != nil && over:
			return nil //nolint:nilerr // the wait was ended
		case err != nil:
			return err
		case !over:
			c.hold(shared, got, counts, section)
		}
		shared.released.Store(time.Now().UnixNano())
		// A library may have ended the lock with ctx.
		if err := release(context.Background()); err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

// hold is the section in which the lock is held.
func (c *contender) hold(shared *ledger, got time.Time, counts bool, section time.Duration) {
	if shared.holders.Add(1) != 1 {
		c.overlaps++
	}
	if before := shared.last.Swap(c.number); counts {
		c.count(before, got.UnixNano()-shared.released.Load())
	}
	if section > 0 {
		time.Sleep(section)
	}
	shared.holders.Add(-1)
}

// count counts an acquisition after the contender of that number, so many ns
// after its release was called.
func (c *contender) count(before int32, latency int64) {
	c.taken++
	if before != c.number {
		c.handOffs++
		c.latency.observe(latency)
	}
	if before>>16 != c.number>>16 {
		c.fromOthers++
	}
}
