package main

import (
	"context"
	"slices"
	"syscall"
	"time"

	"github.com/holdfastlock/holdfast/internal/redistest"
	"github.com/holdfastlock/holdfast/torture/nemesis"
)

// actions are what each kind of fault does to this run.
func (r *run) actions() map[string]nemesis.Action {
	all := map[string]nemesis.Action{
		nemesis.Kill.Name:        r.killWorker,
		nemesis.Stop.Name:        r.stopWorker,
		nemesis.ClientClock.Name: r.stepClientClock,
	}
	if r.backend == nil {
		return all
	}
	for kind, begin := range map[string]func(proxy *redistest.Proxy, f nemesis.Fault){
		nemesis.Delay.Name:        func(p *redistest.Proxy, f nemesis.Fault) { p.Delay(scale(f, time.Millisecond, longestDelay)) },
		nemesis.BlackHole.Name:    func(p *redistest.Proxy, _ nemesis.Fault) { p.Drop() },
		nemesis.Cut.Name:          func(p *redistest.Proxy, f nemesis.Fault) { p.CutAfter(1 + int(f.Size*farthestCut)) },
		nemesis.ReplyLost.Name:    func(p *redistest.Proxy, f nemesis.Fault) { p.DropRepliesTo(r.backend.aboutLocks(f.Worker)) },
		nemesis.RequestsLost.Name: func(p *redistest.Proxy, _ nemesis.Fault) { p.DropRequests() },
		nemesis.RepliesLost.Name:  func(p *redistest.Proxy, _ nemesis.Fault) { p.DropReplies() },
	} {
		all[kind] = r.breakNetwork(begin)
	}
	for kind, do := range r.backend.actions() {
		all[kind] = func(f nemesis.Fault) (string, func() error, error) {
			heal, err := do(f)
			return "server", heal, err
		}
	}
	return all
}

// How much of a fault is the most.
const (
	longestDelay = 300 * time.Millisecond
	farthestCut  = 2000 // bytes
	// The embedded store's clock is the workers'. An hour is how long it knows at
	// the least that a slot is done.
	farthestStep = 25 * time.Minute
)

// scale returns a time between least and most by the fault's size.
func scale(f nemesis.Fault, least, most time.Duration) time.Duration {
	return least + time.Duration(f.Size*float64(most-least))
}

func (r *run) killWorker(f nemesis.Fault) (string, func() error, error) {
	w := r.workers[f.Worker-1]
	name := w.name()
	if err := w.kill(); err != nil {
		return name, nil, err
	}
	return name, nil, w.start()
}

func (r *run) stopWorker(f nemesis.Fault) (string, func() error, error) {
	w := r.workers[f.Worker-1]
	heal := func() error { return w.signal(syscall.SIGCONT) }
	return w.name(), heal, w.signal(syscall.SIGSTOP)
}

// stopReaders stops one worker after the other, each when it has read a resource
// and for as long as a stop lasts at the most.
func (r *run) stopReaders(ctx context.Context, faults *nemesis.Runner, start time.Time) error {
	longest := time.Duration(float64(nemesis.Stop.Longest) * r.options.ttl.Seconds())
	calm := time.After(time.Until(start.Add(r.options.length - r.options.spec().Calm() - longest)))
	for {
		select {
		case n := <-r.readers:
			stop := nemesis.Fault{Kind: nemesis.Stop, Worker: n, At: time.Since(start), For: longest}
			if err := faults.Run(ctx, start, []nemesis.Fault{stop}); err != nil {
				return err
			}
		case <-calm:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// stepClientClock sets the wall clock of a worker, for good: forward or back.
func (r *run) stepClientClock(f nemesis.Fault) (string, func() error, error) {
	w := r.workers[f.Worker-1]
	return w.name(), nil, w.clock.Set(scale(f, -farthestStep, farthestStep))
}

func (r *run) breakNetwork(begin func(*redistest.Proxy, nemesis.Fault)) nemesis.Action {
	return func(f nemesis.Fault) (string, func() error, error) {
		proxies := some(r.backend.proxies(f.Worker), f)
		for _, proxy := range proxies {
			begin(proxy, f)
		}
		heal := func() error {
			for _, proxy := range proxies {
				proxy.Heal()
			}
			return nil
		}
		return "network of " + workerName(f.Worker), heal, nil
	}
}

// some returns those of a worker's proxies that a fault is of: how many and which
// is as its size has it.
func some(proxies []*redistest.Proxy, f nemesis.Fault) []*redistest.Proxy {
	n, first := pick(len(proxies), f)
	return slices.Concat(proxies[first:], proxies[:first])[:1+n]
}

// pick returns two numbers below n that a fault's size stands for, which have
// nothing to do with one another, nor with how far the fault goes.
func pick(n int, f nemesis.Fault) (a, b int) {
	const one, other = 1e4, 1e7
	return int(f.Size*one) % n, int(f.Size*other) % n
}
