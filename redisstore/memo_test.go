package redisstore

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfastlock/holdfast/driver"
	"github.com/holdfastlock/holdfast/internal/redistest"
)

// What one node of a cluster forbids, and the others do not.

// age has what was noted be older.
func age(m *memo, by time.Duration) {
	aged := make(map[string]lack)
	for node, noted := range *m.noted.Load() {
		noted.since = noted.since.Add(-by)
		aged[node] = noted
	}
	m.noted.Store(&aged)
}

// differing starts a cluster of which the last node has a rule for its user that
// the others have not, and returns a store of that user, and some names, all in
// different slots, for each node.
func differing(t *testing.T, rule string, rules ...string) (c *redistest.Cluster, store *Store, names [][]string) {
	t.Helper()
	c = redistest.StartCluster(t, redistest.ClusterOptions{WithoutReplicas: true})
	for _, node := range c.Nodes {
		do(t, node, append([]string{"ACL", "SETUSER", "app", "reset", "on", ">pw", "~lock:*", "&lock:*", "+@all"}, rules...)...)
	}
	last := len(c.Nodes) - 1
	do(t, c.Nodes[last], "ACL", "SETUSER", "app", rule)
	names = make([][]string, len(c.Nodes))
	for n, missing := 0, len(c.Nodes)*namesEach; missing > 0; n++ {
		name := fmt.Sprintf("name %d", n)
		_, node := home(t, c, name)
		for i := range names {
			if c.Nodes[i] == node && len(names[i]) < namesEach {
				names[i] = append(names[i], name)
				missing--
			}
		}
	}
	// Of several addresses the client tries all, and closes what it does not need:
	// losses, after which all is tried again.
	first := c.Addrs()[:1]
	return c, openWith(t, Options{Client: rueidis.ClientOption{InitAddress: first, Username: "app", Password: "pw"}, Cluster: true}), names
}

const namesEach = 4

// tally is how often a command was run, and how often it was refused.
type tally struct{ run, refused int }

// tallies counts the commands at a node since it was last asked.
func tallies(t *testing.T, node *redistest.Process) map[string]tally {
	t.Helper()
	counts := make(map[string]tally)
	for line := range strings.Lines(do(t, node, "INFO", "commandstats")) {
		name, numbers, found := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":")
		if !found {
			continue
		}
		var c tally
		for field := range strings.SplitSeq(numbers, ",") {
			_, _ = fmt.Sscanf(field, "calls=%d", &c.run)
			_, _ = fmt.Sscanf(field, "rejected_calls=%d", &c.refused)
		}
		counts[name] = c
	}
	do(t, node, "CONFIG", "RESETSTAT")
	return counts
}

// useAll acquires, extends, lists and releases all the names.
func useAll(t *testing.T, store *Store, names [][]string) {
	t.Helper()
	var reqs []driver.AcquireRequest
	var extensions []driver.ExtendRequest
	for i := len(names) - 1; i >= 0; i-- { // the node that differs first
		for _, name := range names[i] {
			req := request(name)
			acquire(t, store, req)
			reqs = append(reqs, req)
			extensions = append(extensions, driver.ExtendRequest{Name: name, Token: req.Token, TTL: 2 * req.TTL})
		}
	}
	for i, result := range store.Extend(within(t), extensions) {
		if result.Err != nil || result.Answer != driver.Mine {
			t.Errorf("extend %q: %v, %v", extensions[i].Name, result.Answer, result.Err)
		}
	}
	listed := 0
	for state, err := range store.List(within(t), "*") {
		if err != nil || state.Holders[0].Left <= time.Minute {
			t.Errorf("listed: %+v, %v", state, err)
		}
		listed++
	}
	if listed != len(reqs) {
		t.Errorf("%d names listed, want %d", listed, len(reqs))
	}
	for _, req := range reqs {
		release(t, store, req, driver.Mine)
	}
}

func TestANodeWithoutScriptsLeavesThemToTheOthers(t *testing.T) {
	c, store, names := differing(t, "-@scripting")
	for _, node := range c.Nodes {
		tallies(t, node)
	}
	useAll(t, store, names)
	for i, node := range c.Nodes {
		counts := tallies(t, node)
		scripts, transactions := counts["evalsha"], counts["exec"]
		if without := i == len(c.Nodes)-1; without {
			// It is found out by one name, and is then known of the others.
			if scripts != (tally{0, 1}) || counts["eval"] != (tally{}) || transactions.run == 0 {
				t.Errorf("without scripts: %v", counts)
			}
		} else if scripts.run < 3*namesEach || scripts.refused != 0 || transactions.run != 0 {
			t.Errorf("node %d: %v", i, counts)
		}
	}
}

// Here it is found out by an extension, which is about all nodes.
func TestManyLeasesAreExtendedByScriptWhereThereAreScripts(t *testing.T) {
	c, store, names := differing(t, "+@all")
	var reqs []driver.ExtendRequest
	for _, each := range names {
		for _, name := range each {
			req := request(name)
			acquire(t, store, req)
			reqs = append(reqs, driver.ExtendRequest{Name: name, Token: req.Token, TTL: 2 * req.TTL})
		}
	}
	without := len(c.Nodes) - 1
	do(t, c.Nodes[without], "ACL", "SETUSER", "app", "-@scripting")
	for range 2 {
		for _, node := range c.Nodes {
			tallies(t, node)
		}
		for i, result := range store.Extend(within(t), reqs) {
			if result.Err != nil || result.Answer != driver.Mine {
				t.Errorf("extend %q: %v, %v", reqs[i].Name, result.Answer, result.Err)
			}
		}
	}
	for i, node := range c.Nodes {
		counts := tallies(t, node)
		if i == without && (counts["evalsha"] != tally{} || counts["exec"].run == 0) ||
			i != without && (counts["evalsha"] != tally{run: namesEach} || counts["exec"].run != 0) {
			t.Errorf("node %d: %v", i, counts)
		}
	}
}

func TestANodeWithoutANativeCommandLeavesItToTheOthers(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	if known, err := server.Do("COMMAND", "LIST", "FILTERBY", "PATTERN", "delifeq").AsStrSlice(); err != nil || len(known) == 0 {
		t.Skipf("the server has no DELIFEQ: %q, %v", known, err)
	}
	c, store, names := differing(t, "-delifeq", "-@scripting")
	for _, node := range c.Nodes {
		tallies(t, node)
	}
	useAll(t, store, names)
	for i, node := range c.Nodes {
		counts := tallies(t, node)
		native := counts["delifeq"]
		if without := i == len(c.Nodes)-1; without && native != (tally{0, 1}) || !without && native != (tally{namesEach, 0}) {
			t.Errorf("node %d: DELIFEQ %+v", i, native)
		}
		if counts["evalsha"].refused != 1 {
			t.Errorf("node %d: scripts %+v, want one try", i, counts["evalsha"])
		}
	}
}

func TestWhatASlotMeetsWhereItGoesIsRememberedOfThatNode(t *testing.T) {
	c, store, names := differing(t, "-@scripting")
	with, without := c.Nodes[0], c.Nodes[len(c.Nodes)-1]
	moving, other := request(names[0][0]), request(names[0][1])
	fence := acquire(t, store, moving)
	slot, _ := home(t, c, moving.Name)
	m, err := c.Migrate(slot, without)
	must(t, err)
	must(t, m.Finish())
	release(t, store, moving, driver.Mine)
	tallies(t, with)
	acquire(t, store, other)
	if counts := tallies(t, with); counts["evalsha"].run == 0 || counts["exec"].run != 0 {
		t.Errorf("where it was: %v", counts)
	}
	tallies(t, without)
	acquire(t, store, request(names[len(names)-1][0]))
	if counts := tallies(t, without); counts["evalsha"] != (tally{}) || counts["exec"].run == 0 {
		t.Errorf("where it is: %v", counts)
	}

	m, err = c.Migrate(slot, with)
	must(t, err)
	must(t, m.Finish())
	if again := acquire(t, store, moving); again <= fence { // without scripts, for a while
		t.Errorf("fence %d after %d", again, fence)
	}
	age(&store.plain.scripts, lookAgain)
	tallies(t, with)
	release(t, store, moving, driver.Mine)
	if counts := tallies(t, with); counts["evalsha"].run == 0 || counts["exec"].run != 0 {
		t.Errorf("where it is again: %v", counts)
	}
}
