package main

import (
	"context"
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
	for kind, begin := range map[string]func(proxy *redistest.Proxy, f nemesis.Fault){
		nemesis.Delay.Name:        func(p *redistest.Proxy, f nemesis.Fault) { p.Delay(scale(f, time.Millisecond, longestDelay)) },
		nemesis.BlackHole.Name:    func(p *redistest.Proxy, _ nemesis.Fault) { p.Drop() },
		nemesis.Cut.Name:          func(p *redistest.Proxy, f nemesis.Fault) { p.CutAfter(1 + int(f.Size*farthestCut)) },
		nemesis.ReplyLost.Name:    r.loseReply,
		nemesis.RequestsLost.Name: func(p *redistest.Proxy, _ nemesis.Fault) { p.DropRequests() },
		nemesis.RepliesLost.Name:  func(p *redistest.Proxy, _ nemesis.Fault) { p.DropReplies() },
	} {
		all[kind] = r.breakNetwork(begin)
	}
	for kind, do := range r.serverActions() {
		all[kind] = func(f nemesis.Fault) (string, func() error, error) {
			heal, err := do(f)
			return "server", heal, err
		}
	}
	return all
}

// serverActions are what each kind of fault does to the servers.
func (r *run) serverActions() map[string]func(nemesis.Fault) (func() error, error) {
	if r.options.store == "postgres" {
		return r.postgresActions()
	}
	return map[string]func(nemesis.Fault) (func() error, error){
		nemesis.ServerStop.Name:    r.stopServer,
		nemesis.ServerKill.Name:    r.killServer,
		nemesis.Restart.Name:       r.restart(true),
		nemesis.RestartEmpty.Name:  r.restart(false),
		nemesis.ScriptFlush.Name:   r.command("SCRIPT", "FLUSH"),
		nemesis.FlushAll.Name:      r.command("FLUSHALL"),
		nemesis.KillNormal.Name:    r.command("CLIENT", "KILL", "TYPE", "normal"),
		nemesis.KillPubSub.Name:    r.command("CLIENT", "KILL", "TYPE", "pubsub"),
		nemesis.TinyBuffers.Name:   r.configure(setting{"client-output-buffer-limit", "pubsub 1 0 0", "pubsub 33554432 8388608 60"}),
		nemesis.FullMemory.Name:    r.configure(setting{"maxmemory", "1", "0"}),
		nemesis.Eviction.Name:      r.configure(setting{"maxmemory-policy", "allkeys-random", "noeviction"}, setting{"maxmemory", "1", "0"}),
		nemesis.ClockBack.Name:     r.stepBack,
		nemesis.ClockForward.Name:  r.stepForward,
		nemesis.FailoverBlind.Name: r.failover,
	}
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
		proxy := r.proxies()[f.Worker-1]
		begin(proxy, f)
		heal := func() error {
			proxy.Heal()
			return nil
		}
		return "network of " + workerName(f.Worker), heal, nil
	}
}

// loseReply loses the reply to a statement about a lock. On a connection that
// leads to the server itself the statement has been given a name before.
func (r *run) loseReply(p *redistest.Proxy, f nemesis.Fault) {
	switch {
	case r.postgres == nil:
		p.DropRepliesTo("lock:")
	case pooled(f.Worker):
		p.DropRepliesTo("holdfast_lease")
	default:
		p.DropRepliesTo("stmtcache_")
	}
}

// proxies are those of the workers.
func (r *run) proxies() []*redistest.Proxy {
	if r.postgres != nil {
		return r.postgres.proxies
	}
	return r.servers.proxies
}

func (r *run) stopServer(nemesis.Fault) (func() error, error) {
	server := r.servers.primary
	server.Pause()
	return func() error {
		server.Resume()
		return nil
	}, nil
}

// killServer crashes the server, whose data is on disk.
func (r *run) killServer(nemesis.Fault) (func() error, error) {
	server := r.servers.primary
	server.Kill()
	return func() error { return server.Restart(true) }, nil
}

func (r *run) restart(keepData bool) func(nemesis.Fault) (func() error, error) {
	return func(nemesis.Fault) (func() error, error) {
		server := r.servers.primary
		server.End()
		return func() error { return server.Restart(keepData) }, nil
	}
}

func (r *run) command(args ...string) func(nemesis.Fault) (func() error, error) {
	return func(nemesis.Fault) (func() error, error) {
		return nil, r.servers.primary.Do(args...).Error()
	}
}

// setting is one of the server, how it is broken and how it is right.
type setting struct{ name, broken, right string }

func (r *run) configure(settings ...setting) func(nemesis.Fault) (func() error, error) {
	return func(nemesis.Fault) (func() error, error) {
		for _, s := range settings {
			if err := r.servers.primary.Do("CONFIG", "SET", s.name, s.broken).Error(); err != nil {
				return nil, err
			}
		}
		return func() error {
			for _, s := range settings {
				if err := r.servers.primary.Do("CONFIG", "SET", s.name, s.right).Error(); err != nil {
					return err
				}
			}
			return nil
		}, nil
	}
}

// stepBack sets the servers' clock back by as much as the fault lasts: once it is
// over, the clock shows a time again that it has not shown before.
func (r *run) stepBack(f nemesis.Fault) (func() error, error) {
	return func() error { return nil }, r.stepClock(-f.For)
}

// stepForward sets the servers' clock forward, for good: leases end early.
func (r *run) stepForward(f nemesis.Fault) (func() error, error) {
	return nil, r.stepClock(scale(f, r.options.ttl/4, 4*r.options.ttl))
}

func (r *run) stepClock(by time.Duration) error {
	if r.postgres != nil {
		return r.postgres.stepClock(by)
	}
	return r.servers.stepClock(by)
}

// failover cuts the replica off, lets the primary go on alone, and promotes the
// replica, which has not heard of the latest locks.
func (r *run) failover(nemesis.Fault) (func() error, error) {
	if err := r.servers.inSync(); err != nil {
		return nil, err
	}
	r.servers.link.Drop()
	return r.servers.promote, nil
}
