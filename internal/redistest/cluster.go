package redistest

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// slotCount is how many slots a cluster has.
const slotCount = 16384

// ClusterOptions says how a cluster is set up.
type ClusterOptions struct {
	// Server is how each node is set up.
	Server Options
	// Primaries is how many there are, each with as many slots; 0 means three.
	Primaries int
	// WithoutReplicas leaves them out; else each primary has one.
	WithoutReplicas bool
	// NodeTimeout is after how long a node that does not answer is taken for
	// dead; 0 means two seconds.
	NodeTimeout time.Duration
}

// Cluster is a Redis Cluster. Its methods are for one goroutine at a time.
type Cluster struct {
	Nodes []*Process // the primaries, and then the replica of each, at first
	ids   map[*Process]string
}

// LaunchCluster runs the nodes of a cluster with their data in folders in dir,
// and returns when it is complete. The caller ends it by Kill.
func LaunchCluster(binary, dir string, options ClusterOptions) (*Cluster, error) {
	c := &Cluster{ids: make(map[*Process]string)}
	if err := c.launch(binary, dir, options); err != nil {
		c.Kill()
		return nil, err
	}
	return c, nil
}

func (c *Cluster) launch(binary, dir string, options ClusterOptions) error {
	primaries := options.Primaries
	if primaries == 0 {
		primaries = 3
	}
	nodes := 2 * primaries
	if options.WithoutReplicas {
		nodes = primaries
	}
	var buses []string
	for i := range nodes {
		bus, err := FreePort()
		if err != nil {
			return err
		}
		buses = append(buses, strconv.Itoa(bus))
		node, err := launchIn(dir, fmt.Sprintf("node%d", i), &Process{binary: binary, options: nodeOptions(options, buses[i])})
		if err != nil {
			return err
		}
		c.Nodes = append(c.Nodes, node)
		if c.ids[node], err = node.Do("CLUSTER", "MYID").ToString(); err != nil {
			return err
		}
	}
	if err := c.join(primaries, buses); err != nil {
		return err
	}
	return c.WaitOK()
}

func nodeOptions(options ClusterOptions, bus string) Options {
	timeout := options.NodeTimeout
	if timeout == 0 {
		timeout = 2 * time.Second
	}
	node := options.Server
	node.Args = append([]string{
		"--cluster-enabled", "yes", "--cluster-port", bus, "--cluster-config-file", nodesFile,
		"--cluster-node-timeout", strconv.FormatInt(timeout.Milliseconds(), 10),
		"--cluster-announce-ip", "127.0.0.1", "--repl-diskless-sync-delay", "0",
	}, node.Args...)
	if node.TLS != nil {
		node.Args = append(node.Args, "--tls-cluster", "yes", "--tls-replication", "yes")
	}
	return node
}

// join makes a cluster of the nodes: slots for the primaries, and the others
// follow one each.
func (c *Cluster) join(primaries int, buses []string) error {
	var failed []error
	for i, node := range c.Nodes {
		failed = append(failed, node.Do("CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1)).Error())
		if i > 0 {
			port := strconv.Itoa(node.Port())
			failed = append(failed, c.Nodes[0].Do("CLUSTER", "MEET", "127.0.0.1", port, buses[i]).Error())
		}
		if i < primaries {
			first, last := i*slotCount/primaries, (i+1)*slotCount/primaries-1
			failed = append(failed, node.Do("CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(first), strconv.Itoa(last)).Error())
		}
	}
	if err := errors.Join(failed...); err != nil {
		return err
	}
	for i, node := range c.Nodes[primaries:] {
		var refused error
		err := wait("a node follows its primary", func() bool {
			refused = node.Do("CLUSTER", "REPLICATE", c.ids[c.Nodes[i]]).Error()
			return refused == nil // it does not know it yet
		})
		if err != nil {
			return errors.Join(err, refused)
		}
	}
	return nil
}

// Addrs returns host:port of each node.
func (c *Cluster) Addrs() []string { return addrs(c.Nodes) }

// Kill ends all nodes.
func (c *Cluster) Kill() {
	for _, node := range c.Nodes {
		node.Kill()
	}
}

// member is what one node says of another, or of itself.
type member struct {
	id      string
	flags   string
	primary string // whom it follows; "-" if nobody
	slots   []string
}

// members is what a node says of all; nil if it does not answer.
func members(node *Process) map[string]member {
	text, err := report(node, "CLUSTER", "NODES")
	if err != nil {
		return nil
	}
	all := make(map[string]member)
	for line := range strings.Lines(text) {
		// id, address, flags, primary, ping, pong, epoch, link, slots
		if f := strings.Fields(line); len(f) >= 8 {
			all[f[0]] = member{id: f[0], flags: f[2], primary: f[3], slots: f[8:]}
		}
	}
	return all
}

func (m member) has(flag string) bool {
	for f := range strings.SplitSeq(m.flags, ",") {
		if f == flag {
			return true
		}
	}
	return false
}

// owns says whether the slot is among its own.
func (m member) owns(slot int) bool {
	for _, text := range m.slots { // a number, a range, or [a migration]
		low, high, isRange := strings.Cut(text, "-")
		first, err := strconv.Atoi(low)
		last := first
		if err == nil && isRange {
			last, err = strconv.Atoi(high)
		}
		if err == nil && first <= slot && slot <= last {
			return true
		}
	}
	return false
}

// Slot returns the slot of a key.
func (c *Cluster) Slot(key string) (int, error) {
	var err error
	for _, node := range running(c.Nodes) {
		var slot int64
		if slot, err = node.Do("CLUSTER", "KEYSLOT", key).AsInt64(); err == nil {
			return int(slot), nil
		}
	}
	return 0, fmt.Errorf("no node says the slot of %q: %w", key, err)
}

// Owner returns the node that says that the slot is its own; nil if none does.
// Of two the one that was promoted last comes first: a node that was cut off
// does not know of it yet.
func (c *Cluster) Owner(slot int) *Process {
	var owner *Process
	var newest int64
	for _, node := range running(c.Nodes) {
		self := members(node)[c.ids[node]]
		if !self.has("master") || !self.owns(slot) {
			continue
		}
		epoch, _ := strconv.ParseInt(clusterInfo(node)["cluster_my_epoch"], 10, 64)
		if owner == nil || epoch > newest {
			owner, newest = node, epoch
		}
	}
	return owner
}

func clusterInfo(node *Process) map[string]string {
	text, _ := report(node, "CLUSTER", "INFO")
	return fields(text)
}

// Replica returns a running node that follows this one; nil if none does.
func (c *Cluster) Replica(primary *Process) *Process {
	for _, node := range running(c.Nodes) {
		if members(node)[c.ids[node]].primary == c.ids[primary] {
			return node
		}
	}
	return nil
}

// Other returns a running primary other than this one.
func (c *Cluster) Other(primary *Process) *Process {
	for _, node := range running(c.Nodes) {
		if node != primary && members(node)[c.ids[node]].has("master") {
			return node
		}
	}
	return nil
}
