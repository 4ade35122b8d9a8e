package main

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/holdfastlock/holdfast/internal/redistest"
	"github.com/holdfastlock/holdfast/torture/history"
	"github.com/holdfastlock/holdfast/torture/nemesis"
)

// cluster is a Redis Cluster of three primaries, each with a replica.
type cluster struct {
	options options
	dir     string
	record  func(history.Event)
	*redistest.Cluster
	ways
	epoch string // grows with each failover
}

// nodeTimeout is longer than the servers of a busy machine are silent by
// themselves.
const nodeTimeout = time.Second

// start implements backend.
func (c *cluster) start() error {
	binary, err := redistest.FindBinary()
	if err != nil {
		return err
	}
	c.Cluster, err = redistest.LaunchCluster(binary, c.dir, redistest.ClusterOptions{Server: onDisk(), NodeTimeout: nodeTimeout})
	if err != nil {
		return err
	}
	if c.ways, err = openWays(c.options.workers, c.Nodes); err != nil {
		return err
	}
	return c.settle()
}

// settle waits until the nodes agree, and notes in which epoch.
func (c *cluster) settle() error {
	if err := c.WaitOK(); err != nil {
		return err
	}
	c.epoch = c.latest()
	return nil
}

// latest returns the epoch of those nodes that answer.
func (c *cluster) latest() (epoch string) {
	for _, node := range c.Nodes {
		if !node.Running() {
			continue
		}
		text, _ := node.Do("CLUSTER", "INFO").ToString()
		for line := range strings.Lines(text) {
			if value, found := strings.CutPrefix(strings.TrimSpace(line), "cluster_current_epoch:"); found {
				epoch = value
			}
		}
	}
	return epoch
}

// store implements backend.
func (c *cluster) store(n int) (string, map[string]string) {
	return c.options.url("redis+cluster://" + strings.Join(c.Addrs(), ",")), c.networks(n)
}

// aboutLocks implements backend.
func (c *cluster) aboutLocks(int) string { return prefix }

// primaries are the nodes whose keys count.
func (c *cluster) primaries() []*redistest.Process {
	return slices.DeleteFunc(slices.Clone(c.Nodes), func(node *redistest.Process) bool { return !isPrimary(node) })
}

// locks implements backend.
func (c *cluster) locks() (map[string]string, error) {
	if err := c.undisturbed(); err != nil {
		return nil, err
	}
	return locksOf(c.primaries()...)
}

// places implements backend.
func (c *cluster) places(killed map[string]bool) (map[string]string, error) {
	return placesOf(killed, c.primaries()...)
}

// versions implements backend.
func (c *cluster) versions() map[string]string { return versionsOf(c.Nodes[0]) }

func (c *cluster) close() {
	c.ways.close()
	if c.Cluster != nil {
		c.Kill()
	}
}

// undisturbed is an error after a failover that no fault stands for.
func (c *cluster) undisturbed() error {
	if epoch := c.latest(); epoch != c.epoch {
		return errors.New("a node that was well has been replaced: the machine is too busy")
	}
	return nil
}

// actions implements backend.
func (c *cluster) actions() map[string]serverAction {
	return map[string]serverAction{
		nemesis.BriefStop.Name:   c.of(c.stopBriefly),
		nemesis.ReplicaKill.Name: c.of(c.killReplica),
		nemesis.SlotMoved.Name:   c.of(c.moveSlot),
		nemesis.Handover.Name:    c.of(c.handOver),
		nemesis.ScriptFlush.Name: c.of(tell("SCRIPT", "FLUSH")),
		nemesis.KillNormal.Name:  c.of(tell("CLIENT", "KILL", "TYPE", "normal")),
		nemesis.KillPubSub.Name:  c.of(tell("CLIENT", "KILL", "TYPE", "pubsub")),
		nemesis.FailoverByKill.Name: c.of(c.failover(
			func(old *redistest.Process) error { old.Kill(); return nil },
			func(old *redistest.Process) error { return old.Restart(true) },
		)),
		nemesis.FailoverByStop.Name: c.of(c.failover(
			func(old *redistest.Process) error { old.Pause(); return nil },
			func(old *redistest.Process) error { old.Resume(); return nil },
		)),
		nemesis.FailoverByHand.Name: c.of(c.failover(
			func(old *redistest.Process) error {
				return c.Replica(old).Do("CLUSTER", "FAILOVER", "TAKEOVER").Error()
			},
			func(*redistest.Process) error { return nil },
		)),
	}
}

// slotAction is a serverAction on the slot of a lock and the node that has it.
type slotAction = func(f nemesis.Fault, slot int, owner *redistest.Process) (heal func() error, err error)

// of has it done to the slot of one of the locks that all compete for.
func (c *cluster) of(do slotAction) serverAction {
	return func(f nemesis.Fault) (func() error, error) {
		if err := c.undisturbed(); err != nil {
			return nil, err
		}
		names := slices.Concat(c.options.names.Locks, c.options.names.Queues, c.options.names.Registers)
		_, which := pick(len(names), f)
		slot, err := c.Slot(prefix + names[which])
		if err != nil {
			return nil, err
		}
		owner := c.Owner(slot)
		if owner == nil {
			return nil, errors.New("nobody has the slot of " + names[which])
		}
		return do(f, slot, owner)
	}
}

func tell(args ...string) slotAction {
	return func(_ nemesis.Fault, _ int, owner *redistest.Process) (func() error, error) {
		return nil, owner.Do(args...).Error()
	}
}

func (c *cluster) stopBriefly(_ nemesis.Fault, _ int, owner *redistest.Process) (func() error, error) {
	owner.Pause()
	return func() error {
		owner.Resume()
		return nil
	}, nil
}

func (c *cluster) killReplica(_ nemesis.Fault, _ int, owner *redistest.Process) (func() error, error) {
	replica := c.Replica(owner)
	if replica == nil {
		return nil, errors.New("a primary has no replica")
	}
	replica.Kill()
	return func() error { return errors.Join(replica.Restart(true), c.settle()) }, nil
}

// moveSlot leaves the slot half moved, and then gives it to the other node.
func (c *cluster) moveSlot(_ nemesis.Fault, slot int, owner *redistest.Process) (func() error, error) {
	migration, err := c.Migrate(slot, c.Other(owner))
	if err != nil {
		return nil, err
	}
	keys, err := migration.Keys()
	if err != nil {
		return nil, err
	}
	return func() error { return errors.Join(migration.Finish(), c.settle()) }, migration.Move(keys[:len(keys)/2]...)
}

func (c *cluster) handOver(_ nemesis.Fault, _ int, owner *redistest.Process) (func() error, error) {
	replica := c.Replica(owner)
	if replica == nil {
		return nil, errors.New("a primary has no replica")
	}
	return c.settle, c.Failover(replica)
}

// failover begins what makes the others replace the owner, and ends it when they
// have.
func (c *cluster) failover(begin, end func(old *redistest.Process) error) slotAction {
	return func(f nemesis.Fault, slot int, owner *redistest.Process) (func() error, error) {
		replica := c.Replica(owner)
		if replica == nil {
			return nil, errors.New("a primary has no replica")
		}
		began := history.Now()
		return func() error {
			since, err := untilPromoted(began, replica)
			if err != nil {
				return err
			}
			c.record(promotion(f, since))
			if _, err := c.WaitFailover(slot, owner); err != nil {
				return err
			}
			return errors.Join(end(owner), c.settle())
		}, begin(owner)
	}
}
