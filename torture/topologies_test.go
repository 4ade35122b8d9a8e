package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfastlock/holdfast/torture/nemesis"
)

func TestHoldfastSurvivesEveryKindOfFaultOfATopology(t *testing.T) {
	for store, seed := range map[string]uint64{
		"sentinel": 66, // with a partition
		"cluster":  14, // with a failover, a handover and a slot migration
		"quorum":   9,  // with a majority that stands still, and a restart without the data
	} {
		t.Run(store, func(t *testing.T) {
			o := testOptions(t)
			o.store, o.kinds, o.names, o.seed = store, nemesis.Of(store), namesOf(store), seed
			o.workers, o.clients = 3, 3
			found := find(t, o)
			if (found.Unfenced > 0) != (len(o.names.Unfenced) > 0) {
				t.Errorf("%d leases without a fence, on names %q", found.Unfenced, o.names.Unfenced)
			}
			if found.Operations < 300 || len(found.Faults) < 10 {
				t.Errorf("%d operations under %d kinds of faults", found.Operations, len(found.Faults))
			}
		})
	}
}

func TestAPrimaryThatIsCutOffServesClientsAndIsReplaced(t *testing.T) {
	r := serve(t, "sentinel")
	s := r.backend.(*sentinels)
	old := s.primary
	heal := begin(t, r, nemesis.FailoverByCut, 0)
	if err := old.Do("SET", "late", "1").Error(); err != nil {
		t.Fatal(err)
	}
	heal()
	if s.primary == old {
		t.Error("the primary is the same")
	}
	if n, err := s.primary.Do("EXISTS", "late").AsInt64(); n != 0 || err != nil {
		t.Errorf("what was written to the old primary: %d keys, %v", n, err)
	}
}

func TestAFailoverThatNoFaultStandsForIsTold(t *testing.T) {
	r := serve(t, "sentinel")
	s := r.backend.(*sentinels)
	if _, err := s.Failover(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.chosen(); err == nil || !strings.Contains(err.Error(), "replaced") {
		t.Errorf("after a failover: %v", err)
	}
	for _, sentinel := range s.Sentinels.Sentinels[1:] {
		sentinel.Kill()
	}
	if _, err := s.chosen(); err == nil || !strings.Contains(err.Error(), "no primary is named") {
		t.Errorf("with one sentinel: %v", err)
	}
}

func TestASlotIsHalfMovedAndThenHasAnotherOwner(t *testing.T) {
	r := serve(t, "cluster")
	c := r.backend.(*cluster)
	slot, err := c.Slot(prefix + allNames.Locks[0])
	if err != nil {
		t.Fatal(err)
	}
	old := c.Owner(slot)
	for _, key := range []string{"lock:a", "lock:~f:{lock:a}"} {
		if err := old.Do("SET", key, "1").Error(); err != nil {
			t.Fatal(err)
		}
	}
	heal := begin(t, r, nemesis.SlotMoved, 0)
	if n, err := old.Do("DBSIZE").AsInt64(); n != 1 || err != nil {
		t.Errorf("half moved, %d keys of 2 are left, %v", n, err)
	}
	heal()
	if owner := c.Owner(slot); owner == old {
		t.Error("the owner is the same")
	}
	if left, err := c.locks(); err != nil || left["a"] != "held by 1" {
		t.Errorf("the locks are %v, %v", left, err)
	}
}

func TestNoMoreThanAMinorityIsAwayAtATime(t *testing.T) {
	n := &nodes{options: options{ttl: time.Second}}
	for i := range nodeCount {
		n.all = append(n.all, &node{offset: time.Duration(i)})
	}
	for i := range 1000 {
		first := i % nodeCount
		chosen := n.some(slices.Concat(n.all[first:], n.all[:first]), nemesis.Fault{Size: float64(i) / 1000})
		for _, node := range chosen {
			node.began = time.Now()
		}
		away := 0
		for _, node := range n.all {
			if n.abstains(node) {
				away++
			}
		}
		if len(chosen) < 1 || len(chosen) > 2 || away > 2 {
			t.Fatalf("%d are chosen, and %d away", len(chosen), away)
		}
		if i%7 == 0 {
			chosen[0].began = time.Time{}
		}
	}
}
