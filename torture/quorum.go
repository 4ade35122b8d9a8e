package main

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/holdfastlock/holdfast/internal/redistest"
	"github.com/holdfastlock/holdfast/torture/clockshim"
	"github.com/holdfastlock/holdfast/torture/nemesis"
	"github.com/holdfastlock/holdfast/torture/worker"
)

// nodes are independent servers, each with a clock of its own. A majority of them
// decides.
type nodes struct {
	options options
	dir     string
	all     []*node
	ways
}

// node is one of the servers.
type node struct {
	*redistest.Process
	clock  clockshim.File
	offset time.Duration // of that clock
	// began is when it last began to run; it abstains for a while then.
	began time.Time
}

const (
	// nodeCount is how many there are; fewest of them are a majority.
	nodeCount = 5
	fewest    = nodeCount/2 + 1
	// apart is by how much their clocks differ, one from the next: the first and the
	// last by less than a server abstains.
	apart = 150 * time.Millisecond
)

// longest is the longest time for which a node keeps a lease that nothing extends.
func (o options) longest() time.Duration {
	return max(o.ttl+worker.LockDelay(o.ttl), 2*o.ownTTL()) // the own locks have a delay as long
}

// start implements backend. The clocks of the servers differ.
func (n *nodes) start() error {
	binary, err := redistest.FindBinary()
	if err != nil {
		return err
	}
	library, err := clockshim.Build(n.dir)
	if err != nil {
		return err
	}
	var processes []*redistest.Process
	for i := range nodeCount {
		name := filepath.Join(n.dir, fmt.Sprintf("node%d", i+1))
		clock, err := clockshim.Create(name + ".clock")
		if err != nil {
			return err
		}
		server := onDisk()
		server.Env = clock.Env(library)
		process, err := launch(binary, name, server)
		if err != nil {
			return err
		}
		node := &node{Process: process, clock: clock, began: time.Now()}
		n.all = append(n.all, node)
		processes = append(processes, process)
		if err := node.stepClock(time.Duration(i-nodeCount/2) * apart); err != nil {
			return err
		}
	}
	n.awaitAll()
	n.ways, err = openWays(n.options.workers, processes)
	return err
}

// awaitAll waits until no node abstains.
func (n *nodes) awaitAll() {
	for slices.ContainsFunc(n.all, n.abstains) {
		time.Sleep(syncPoll)
	}
}

func (n *node) stepClock(by time.Duration) error {
	n.offset += by
	return n.clock.Set(n.offset)
}

// store implements backend.
func (n *nodes) store(number int) (string, map[string]string) {
	var addresses []string
	for _, proxy := range n.proxies(number) {
		addresses = append(addresses, proxy.Addr())
	}
	// A server of a busy machine may take longer than a tenth of a short TTL.
	return fmt.Sprintf("quorum+redis://%s?longest_ttl=%v&node_timeout=%v",
		strings.Join(addresses, ","), n.options.longest(), n.options.ttl/4), nil
}

// aboutLocks implements backend.
func (n *nodes) aboutLocks(int) string { return prefix }

// locks implements backend: what any of the servers has counts.
func (n *nodes) locks() (map[string]string, error) { return locksOf(n.processes()...) }

// places implements backend.
func (n *nodes) places(killed map[string]bool) (map[string]string, error) {
	return placesOf(killed, n.processes()...)
}

// versions implements backend.
func (n *nodes) versions() map[string]string { return versionsOf(n.all[0].Process) }

func (n *nodes) processes() (all []*redistest.Process) {
	for _, node := range n.all {
		all = append(all, node.Process)
	}
	return all
}

func (n *nodes) close() {
	n.ways.close()
	for _, node := range n.all {
		node.Kill()
	}
}

// actions implements backend.
func (n *nodes) actions() map[string]serverAction {
	return map[string]serverAction{
		nemesis.SomeStop.Name:    n.to(n.some, pause),
		nemesis.SomeKill.Name:    n.to(n.some, n.crash(true)),
		nemesis.SomeEmpty.Name:   n.to(n.some, n.crash(false)),
		nemesis.SomeSlow.Name:    n.to(n.some, n.slow),
		nemesis.SomeCut.Name:     n.to(n.some, n.blackHole),
		nemesis.OneBack.Name:     n.stepBack,
		nemesis.MostStop.Name:    n.to(most, pause),
		nemesis.MostKill.Name:    n.mostKill,
		nemesis.ScriptFlush.Name: n.to(every, told("SCRIPT", "FLUSH")),
		nemesis.KillNormal.Name:  n.to(every, told("CLIENT", "KILL", "TYPE", "normal")),
		nemesis.KillPubSub.Name:  n.to(every, told("CLIENT", "KILL", "TYPE", "pubsub")),
		nemesis.MostFlush.Name:   n.to(most, told("FLUSHALL")),
		nemesis.OneForward.Name:  n.stepForward,
	}
}

// choice chooses among all nodes, which come in an order that the fault's size
// stands for.
type choice = func(all []*node, f nemesis.Fault) []*node

// nodeAction begins a fault of one node and returns what heals it, or nil.
type nodeAction = func(*node, nemesis.Fault) (heal func() error, err error)

// to has it done to each node of a choice.
func (n *nodes) to(choose choice, do nodeAction) serverAction {
	return func(f nemesis.Fault) (func() error, error) {
		_, first := pick(len(n.all), f)
		var heals []func() error
		for _, node := range choose(slices.Concat(n.all[first:], n.all[:first]), f) {
			heal, err := do(node, f)
			if err != nil {
				return nil, err
			}
			if heal != nil {
				heals = append(heals, heal)
			}
		}
		if heals == nil {
			return nil, nil
		}
		return func() (err error) {
			for _, heal := range heals {
				err = errors.Join(err, heal())
			}
			return err
		}, nil
	}
}

func most(all []*node, f nemesis.Fault) []*node {
	more, _ := pick(nodeCount-fewest+1, f)
	return all[:fewest+more]
}

func every(all []*node, _ nemesis.Fault) []*node { return all }

// some chooses one or two, so that with those that abstain there are not enough
// to be missed.
func (n *nodes) some(all []*node, f nemesis.Fault) (chosen []*node) {
	more, _ := pick(nodeCount-fewest, f)
	away := 0
	for _, node := range all {
		if n.abstains(node) {
			away++
		}
	}
	for _, node := range all {
		switch {
		case len(chosen) > more:
		case n.abstains(node):
			chosen = append(chosen, node)
		case away < nodeCount-fewest:
			chosen = append(chosen, node)
			away++
		}
	}
	return chosen
}

// abstains says whether a node may do so yet: it counts its time in seconds.
func (n *nodes) abstains(node *node) bool {
	return time.Since(node.began) < n.options.longest()+2*time.Second
}

func pause(n *node, _ nemesis.Fault) (func() error, error) {
	n.Pause()
	return func() error {
		n.Resume()
		return nil
	}, nil
}

func (n *nodes) slow(node *node, f nemesis.Fault) (func() error, error) {
	return n.breakNetwork(node, func(p *redistest.Proxy) { p.Delay(scale(f, time.Millisecond, longestDelay)) })
}

func (n *nodes) blackHole(node *node, _ nemesis.Fault) (func() error, error) {
	return n.breakNetwork(node, func(p *redistest.Proxy) { p.Drop() })
}

// breakNetwork breaks the network between everybody and a node.
func (n *nodes) breakNetwork(node *node, begin func(*redistest.Proxy)) (func() error, error) {
	proxies := n.ways.to(node.Process)
	for _, proxy := range proxies {
		begin(proxy)
	}
	return func() error {
		for _, proxy := range proxies {
			proxy.Heal()
		}
		return nil
	}, nil
}

// crash kills a node, which comes back with its data or without.
func (n *nodes) crash(keepData bool) nodeAction {
	return func(node *node, _ nemesis.Fault) (func() error, error) {
		node.Kill()
		return func() error {
			err := node.Restart(keepData)
			node.began = time.Now()
			return err
		}, nil
	}
}

// mostKill heals when the majority does not abstain any more.
func (n *nodes) mostKill(f nemesis.Fault) (func() error, error) {
	heal, err := n.to(most, n.crash(true))(f)
	return func() error {
		err := heal()
		n.awaitAll()
		return err
	}, err
}

func told(args ...string) nodeAction {
	return func(n *node, _ nemesis.Fault) (func() error, error) { return nil, n.Do(args...).Error() }
}

// stepBack sets the clock back that is ahead of all others, by a part of the time
// that the fault lasts: so they are never far apart.
func (n *nodes) stepBack(f nemesis.Fault) (func() error, error) {
	ahead := slices.MaxFunc(n.all, func(a, b *node) int { return cmp.Compare(a.offset, b.offset) })
	return func() error { return nil }, ahead.stepClock(-f.For / 8)
}

// stepForward sets the clock forward that is behind all others, by more than a
// lease lasts at times: so they are never as far apart as a server abstains.
func (n *nodes) stepForward(f nemesis.Fault) (func() error, error) {
	behind := slices.MinFunc(n.all, func(a, b *node) int { return cmp.Compare(a.offset, b.offset) })
	return nil, behind.stepClock(scale(f, n.options.ttl/4, n.options.ttl*5/4))
}
