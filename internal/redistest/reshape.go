package redistest

import (
	"errors"
	"slices"
	"strconv"
	"strings"
)

// What is done to a cluster while it is used.

// Migration is a slot on its way from one primary to another. Between its steps
// the source answers ASK for keys it has no more, and TRYAGAIN for several of
// which it has some.
type Migration struct {
	From, To *Process
	cluster  *Cluster
	slot     string
}

// Migrate begins to move a slot from its owner to another primary.
func (c *Cluster) Migrate(slot int, to *Process) (*Migration, error) {
	m := &Migration{From: c.Owner(slot), To: to, cluster: c, slot: strconv.Itoa(slot)}
	if m.From == nil || m.From == to {
		return nil, errors.New("the slot has no owner, or the target is it")
	}
	return m, errors.Join(
		m.set(to, "IMPORTING", c.ids[m.From]),
		m.set(m.From, "MIGRATING", c.ids[to]),
	)
}

func (m *Migration) set(node *Process, state ...string) error {
	return node.Do(append([]string{"CLUSTER", "SETSLOT", m.slot}, state...)...).Error()
}

// Keys returns the keys that the source still has in the slot.
func (m *Migration) Keys() ([]string, error) {
	return m.From.Do("CLUSTER", "GETKEYSINSLOT", m.slot, "1000000").AsStrSlice()
}

// Move moves keys.
func (m *Migration) Move(keys ...string) error {
	if len(keys) == 0 {
		return nil
	}
	args := []string{"MIGRATE", "127.0.0.1", strconv.Itoa(m.To.Port()), "", "0", "5000", "REPLACE"}
	if password := m.To.options.Password; password != "" {
		args = append(args, "AUTH", password)
	}
	return m.From.Do(slices.Concat(args, []string{"KEYS"}, keys)...).Error()
}

// Finish moves the keys that are left and gives the slot to the target, which
// tells the others.
func (m *Migration) Finish() error {
	keys, err := m.Keys()
	for len(keys) > 0 && err == nil { // others make new ones meanwhile
		if err = m.Move(keys...); err == nil {
			keys, err = m.Keys()
		}
	}
	if err != nil {
		return err
	}
	// The target first: else nobody has the slot if the source ends just then.
	return errors.Join(
		m.set(m.To, "NODE", m.cluster.ids[m.To]),
		m.set(m.From, "NODE", m.cluster.ids[m.To]),
	)
}

// Failover has a replica take the place of its primary, which is well and hands
// over in an orderly way.
func (c *Cluster) Failover(replica *Process) error {
	if err := replica.Do("CLUSTER", "FAILOVER").Error(); err != nil {
		return err
	}
	return wait("the replica is a primary", func() bool { return role(replica) == "master" })
}

// WaitFailover waits until all other nodes that run take another than the old
// node, which may be paused, for the slot's owner, and returns that.
func (c *Cluster) WaitFailover(slot int, old *Process) (*Process, error) {
	others := &Cluster{ids: c.ids}
	for _, node := range c.Nodes {
		if node != old {
			others.Nodes = append(others.Nodes, node)
		}
	}
	var owner *Process
	err := wait("another node has the slot, and all know it", func() bool {
		owner = others.Owner(slot)
		return owner != nil && others.agree()
	})
	return owner, err
}

// WaitOK waits until every node that runs says that the cluster is well, and who
// has which slots, and every replica is in touch with its primary. None may be
// paused.
func (c *Cluster) WaitOK() error {
	return wait("the cluster is complete", func() bool {
		if !c.agree() {
			return false
		}
		for _, node := range running(c.Nodes) {
			told := info(node, "replication")
			if told["role"] == "slave" && told["master_link_status"] != "up" {
				return false
			}
		}
		return true
	})
}

// agree says whether the nodes that run find the cluster well and say the same
// of each other as each of itself.
func (c *Cluster) agree() bool {
	nodes := running(c.Nodes)
	views := make(map[*Process]map[string]member)
	for _, node := range nodes {
		told := clusterInfo(node)
		if told["cluster_state"] != "ok" || told["cluster_slots_ok"] != strconv.Itoa(slotCount) {
			return false
		}
		views[node] = members(node)
		if len(views[node]) != len(c.ids) {
			return false
		}
	}
	for _, node := range nodes {
		for _, other := range nodes {
			if !sameMember(views[node][c.ids[other]], views[other][c.ids[other]]) {
				return false
			}
		}
	}
	return true
}

// sameMember compares what a node says of another with what that says of itself,
// which alone tells of migrations.
func sameMember(seen, self member) bool {
	for _, bad := range []string{"fail?", "fail", "handshake", "noaddr"} {
		if seen.has(bad) {
			return false
		}
	}
	own := slices.DeleteFunc(slices.Clone(self.slots), func(s string) bool { return strings.HasPrefix(s, "[") })
	return self.id != "" && seen.has("master") == self.has("master") && seen.primary == self.primary && slices.Equal(seen.slots, own)
}
