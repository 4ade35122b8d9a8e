package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// contest is a way to contend for one key.
type contest struct {
	Workload   string
	Processes  int
	Goroutines int // of each process
	Section    time.Duration
	// Settle is how long they contend before anything is counted, and Duration
	// how long it is.
	Settle, Duration time.Duration

	libraries func(library) bool
}

// settleMany is how long a thousand need until all wait.
const settleMany = 2 * time.Second

// contests returns those of the plan's workloads, or of them those that the line
// of ratios needs.
func (p plan) contests() (all []contest) {
	// Who waits longest shows late, so they last longer than other runs.
	settle, d := 2*p.duration/5, 2*p.duration*4/5
	if p.quick {
		if p.wants("onekey") {
			all = append(all, contest{"onekey", 1, 16, 0, settle, d, named("holdfast")})
		}
		if p.wants("procs") {
			all = append(all, contest{"procs", 8, 8, 0, settle, d, named("holdfast-nopassing")})
		}
		return all
	}
	both := named("holdfast", "holdfast-nopassing")
	if p.wants("onekey") {
		for _, n := range p.goroutinesOr(16, 256) {
			all = append(all, contest{"onekey", 1, n, 0, settle, d, both})
		}
	}
	if p.wants("procs") {
		for _, section := range []time.Duration{0, time.Millisecond} {
			all = append(all, contest{"procs", p.processes, p.goroutinesOr(8)[0], section, settle, d, both})
		}
	}
	if p.wants("waiters") {
		some := only("holdfast", "holdfast-nopassing", "holdfast-lockers", "redislock", "rueidislock")
		all = append(all, contest{"waiters", 1, p.goroutinesOr(1000)[0], 0, settleMany, d, some})
	}
	return all
}

// contendedResult is what one library did in a contest.
type contendedResult struct {
	Library string
	Contest contest
	Runs    []contendedRun
}

// contendedRun is one measurement.
type contendedRun struct {
	Took       time.Duration
	Sent       int // commands that the clients sent
	All        int // commands that the server ran, those of scripts included
	Taken      int64
	HandOffs   int64
	FromOthers int64
	Overlaps   int64
	Jain       float64 // of the goroutines' acquisitions
	JainOfAll  float64 // of the processes'
	Longest    time.Duration
	P50, P99   time.Duration // of hand-offs
	CPU        time.Duration // of all clients
}

func measureContended(ctx context.Context, s *server, p plan, c contest) ([]contendedResult, error) {
	chosen := p.chosen(c.libraries)
	runs, err := takeTurns(len(chosen), p.reps, func(i int) (contendedRun, error) {
		run, err := c.run(ctx, s, chosen[i])
		if err != nil {
			err = fmt.Errorf("%s: %s: %w", c.Workload, chosen[i].name, err)
		}
		return run, err
	})
	if err != nil {
		return nil, err
	}
	var results []contendedResult
	for i, lib := range chosen {
		results = append(results, contendedResult{lib.name, c, runs[i]})
	}
	return results, nil
}

// run starts the members and lets them contend.
func (c contest) run(ctx context.Context, s *server, lib library) (contendedRun, error) {
	if err := s.flush(ctx); err != nil {
		return contendedRun{}, err
	}
	file := filepath.Join(s.dir, "ledger")
	if err := createLedger(file); err != nil {
		return contendedRun{}, err
	}
	defer os.Remove(file)
	ctx, stop := context.WithCancel(ctx)
	members := make([]*member, c.Processes)
	for i := range members {
		j := job{lib.name, s.addr, file, i, c.Goroutines, c.Section, c.Settle, c.Duration}
		members[i] = enlist(ctx, j, c.Processes > 1)
	}
	defer func() {
		stop()
		for _, m := range members {
			<-m.ended
		}
	}()
	for _, m := range members {
		if err := m.waitReady(); err != nil {
			return contendedRun{}, err
		}
	}
	return c.contend(ctx, s, lib, members)
}

// contend counts the commands of the time in which the members count.
func (c contest) contend(ctx context.Context, s *server, lib library, members []*member) (contendedRun, error) {
	for _, m := range members {
		close(m.begin)
	}
	err := wait(ctx, c.Settle)
	if err == nil {
		err = s.resetCounts(ctx)
	}
	if err == nil {
		err = wait(ctx, c.Duration) // until just before the waiters leave, which costs commands
	}
	var counted counts
	if err == nil {
		counted, err = s.counts(ctx)
	}
	if err != nil {
		return contendedRun{}, err
	}
	run := contendedRun{Took: c.Duration, Sent: lib.sent(counted), All: counted.total()}
	var shares []share
	for _, m := range members {
		<-m.ended
		if m.failed != nil {
			return contendedRun{}, m.failed
		}
		shares = append(shares, m.share)
	}
	run.add(shares)
	return run, nil
}

// wait returns after d, or with the error of ctx when that ends.
func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (r *contendedRun) add(shares []share) {
	var each, processes []int64
	var latency histogram
	for _, s := range shares {
		var taken int64
		for _, n := range s.Taken {
			taken += n
		}
		each, processes = append(each, s.Taken...), append(processes, taken)
		r.Taken += taken
		r.HandOffs += s.HandOffs
		r.FromOthers += s.FromOthers
		r.Overlaps += s.Overlaps
		r.CPU += s.CPU
		r.Longest = max(r.Longest, s.Longest)
		latency.add(&s.Latency)
	}
	r.Jain, r.JainOfAll = jain(each), jain(processes)
	r.P50, r.P99 = latency.quantile(0.50), latency.quantile(0.99)
}

// jain is Jain's fairness index: 1 if all have the same, 1/n if one has all.
func jain(shares []int64) float64 {
	var sum, squares float64
	for _, n := range shares {
		sum += float64(n)
		squares += float64(n) * float64(n)
	}
	if squares == 0 {
		return 0
	}
	return sum * sum / (float64(len(shares)) * squares)
}

// perSecond and the others are figures of a run.
func (r contendedRun) perSecond(n int64) float64 { return float64(n) / r.Took.Seconds() }

func (r contendedRun) acquisitions() float64 { return r.perSecond(r.Taken) }
func (r contendedRun) handOffs() float64     { return r.perSecond(r.HandOffs) }
func (r contendedRun) fromOthers() float64   { return r.perSecond(r.FromOthers) }

// sentEach is commands sent for each acquisition.
func (r contendedRun) sentEach() float64 { return float64(r.Sent) / float64(max(r.Taken, 1)) }
func (r contendedRun) sentEachHandOff() float64 {
	return float64(r.Sent) / float64(max(r.HandOffs, 1))
}
