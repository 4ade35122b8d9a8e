package quorum

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfastlock/holdfast/driver"
	"github.com/holdfastlock/holdfast/memstore"
)

// unfenced is a request whose first nodes, of five, are those returned first.
func unfenced(quorum *Store, list []*node) (req driver.AcquireRequest, first, others []*node) {
	req = request("x")
	req.NoFence = true
	set := quorum.firstFor(req.Name)
	for i, node := range list {
		if set.has(i) {
			first = append(first, node)
		} else {
			others = append(others, node)
		}
	}
	return req, first, others
}

// fivefold runs a test with five nodes in a bubble of fake time.
func fivefold(t *testing.T, test func(t *testing.T, quorum *Store, list []*node)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		list := nodes(5)
		quorum := quorumOf(t, Options{}, list...)
		met(t, quorum, list)
		test(t, quorum, list)
		quorum.Close()
	})
}

// met has the quorum ask all nodes once, and find them prompt.
func met(t *testing.T, quorum *Store, list []*node) {
	t.Helper()
	req := request("met")
	req.NoFence = true
	acquire(t, quorum, req)
	synctest.Wait()
	release(t, quorum, req, driver.Mine)
	synctest.Wait()
	for _, node := range list {
		if n := node.count("acquire"); n != 1 {
			t.Errorf("a node that was not known was asked %d times", n)
		}
		clear(node.counts)
	}
}

func wantCounts(t *testing.T, list []*node, acquires, releases int) {
	t.Helper()
	synctest.Wait()
	for i, node := range list {
		if a, r := node.count("acquire"), node.count("release"); a != acquires || r != releases {
			t.Errorf("node %d of %d was asked for it %d times and freed %d times, want %d and %d", i, len(list), a, r, acquires, releases)
		}
	}
}

func TestABriefLeaseWithoutFenceIsAtAMajorityOnly(t *testing.T) {
	fivefold(t, func(t *testing.T, quorum *Store, list []*node) {
		req, first, others := unfenced(quorum, list)
		began := time.Now()
		acquire(t, quorum, req)
		release(t, quorum, req, driver.Mine)
		if took := time.Since(began); took != 0 {
			t.Errorf("it waited for %v", took)
		}
		time.Sleep(time.Minute)
		if len(first) != 3 {
			t.Errorf("%d nodes are asked first", len(first))
		}
		wantCounts(t, first, 1, 1)
		wantCounts(t, others, 0, 0)
	})
}

func TestALeaseThatIsStillHeldComesToTheOtherNodesToo(t *testing.T) {
	for _, ttl := range []time.Duration{time.Minute, 100 * time.Millisecond} {
		fivefold(t, func(t *testing.T, quorum *Store, list []*node) {
			req, _, others := unfenced(quorum, list)
			req.TTL = ttl
			after := min(alone, ttl/10)
			acquire(t, quorum, req)
			time.Sleep(after - time.Nanosecond)
			wantCounts(t, others, 0, 0)
			time.Sleep(time.Nanosecond)
			wantCounts(t, others, 1, 0)
			for _, node := range list {
				if node.heldBy(t, "x") != req.Token {
					t.Error("a node does not have it")
				}
			}
			release(t, quorum, req, driver.Mine)
			wantCounts(t, list, 1, 1)
		})
	}
}

// Names whose first nodes are the distant one among them do not take longer.
func TestANodeFurtherAwayThanTheOthersIsNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		list := nodes(5)
		for i, node := range list {
			away := time.Millisecond
			if i == 4 {
				away *= 20
			}
			node.SetFault(func(string) memstore.Fault {
				time.Sleep(away)
				return memstore.Fault{}
			})
		}
		quorum := quorumOf(t, Options{}, list...)
		for i := range 50 {
			req := request(fmt.Sprint("name ", i))
			req.NoFence = true
			began := time.Now()
			acquire(t, quorum, req)
			if took := time.Since(began); took > time.Millisecond {
				t.Errorf("%q took %v", req.Name, took)
			}
			time.Sleep(time.Second)
		}
		quorum.Close()
	})
}

func TestAllNodesAreAskedIfAllAreFarAway(t *testing.T) {
	fivefold(t, func(t *testing.T, quorum *Store, list []*node) {
		for i, node := range list {
			node.SetFault(func(string) memstore.Fault {
				time.Sleep(time.Duration(30+i) * time.Millisecond)
				return memstore.Fault{}
			})
		}
		for i := range 30 {
			req := request(fmt.Sprint("name ", i))
			req.NoFence = true
			began := time.Now()
			acquire(t, quorum, req)
			if took := time.Since(began); i > 0 && took > 32*time.Millisecond {
				t.Errorf("%q took %v", req.Name, took)
			}
			time.Sleep(time.Second)
		}
	})
}

// From then on it bears what a lease with a fence bears at once.
func TestALeaseWithoutFenceBearsTheLossOfAMinority(t *testing.T) {
	fivefold(t, func(t *testing.T, quorum *Store, list []*node) {
		req, first, _ := unfenced(quorum, list)
		acquire(t, quorum, req)
		time.Sleep(alone)
		synctest.Wait()
		first[0].Wipe()
		first[1].Wipe()
		refuse(t, quorum, request("x"))
		if result := extend(t, quorum, req); result.Answer != driver.Mine {
			t.Errorf("the lease: %+v", result)
		}
	})
}

func TestTheOtherNodesAreAskedAtOnceForOneThatFails(t *testing.T) {
	fivefold(t, func(t *testing.T, quorum *Store, list []*node) {
		req, first, others := unfenced(quorum, list)
		first[1].breakWith(down)
		defer first[2].stop("acquire")() // nor is that one waited for
		began := time.Now()
		acquire(t, quorum, req)
		wantCounts(t, others, 1, 0)
		release(t, quorum, req, driver.Mine)
		if quorum.firstFor("x") != quorum.all() {
			t.Error("the next one would be asked of it first again")
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("it waited for %v", took)
		}
	})
}

func TestANodeThatIsSlowIsWaitedForOnce(t *testing.T) {
	fivefold(t, func(t *testing.T, quorum *Store, list []*node) {
		req, first, others := unfenced(quorum, list)
		goOn := first[1].stop("acquire")
		for _, wait := range []time.Duration{shortestPrompt, 0, 0} {
			began := time.Now()
			acquire(t, quorum, req)
			if took := time.Since(began); took != wait {
				t.Errorf("it waited for %v, want %v", took, wait)
			}
			req.Name += "x" // another
		}
		goOn()
		// Once it was prompt again it is relied on again.
		acquire(t, quorum, req)
		synctest.Wait()
		if quorum.firstFor("x") == quorum.all() {
			t.Error("it is not trusted although it was prompt")
		}
		before := others[0].count("acquire") + others[1].count("acquire")
		for i := range 20 {
			again := request(fmt.Sprint("again", i))
			again.NoFence = true
			acquire(t, quorum, again)
			release(t, quorum, again, driver.Mine)
		}
		synctest.Wait()
		if asked := others[0].count("acquire") + others[1].count("acquire") - before; asked >= 40 {
			t.Errorf("the others were asked %d times for 20 names", asked)
		}
	})
}

// Whether it was still held is known once all three have answered, or don't.
func TestABriefLeaseIsReleasedThoughOneOfItsNodesIsLost(t *testing.T) {
	for _, lose := range []func(n *node){
		func(n *node) { n.breakWith(down) },
		func(n *node) { time.AfterFunc(firstSettle, n.stop("release")) },
	} {
		fivefold(t, func(t *testing.T, quorum *Store, list []*node) {
			req, first, others := unfenced(quorum, list)
			acquire(t, quorum, req)
			lose(first[0])
			release(t, quorum, req, driver.Mine)
			wantCounts(t, others, 0, 0)
			first[0].breakWith(nil)
			time.Sleep(req.TTL)
			freeAt(t, "x", list...)
		})
	}
}

func TestABriefLeaseThatOneOfItsThreeNodesHasLostIsLost(t *testing.T) {
	fivefold(t, func(t *testing.T, quorum *Store, list []*node) {
		req, first, _ := unfenced(quorum, list)
		acquire(t, quorum, req)
		first[0].Wipe()
		release(t, quorum, req, driver.Gone)
		synctest.Wait()
		if first[1].heldBy(t, "x")+first[2].heldBy(t, "x") != "" {
			t.Error("it is left at a node")
		}
	})
}

func TestWhoIsRefusedByThreeOfFiveAsksNoOther(t *testing.T) {
	fivefold(t, func(t *testing.T, quorum *Store, list []*node) {
		req, first, others := unfenced(quorum, list)
		holder := request("x")
		for _, node := range first {
			acquire(t, node.Store, holder)
		}
		if state := refuse(t, quorum, req); holderOf(state).Token != holder.Token {
			t.Errorf("the holder is %+v", state)
		}
		time.Sleep(time.Minute)
		wantCounts(t, first, 1, 0)
		wantCounts(t, others, 0, 0)
	})
}

func TestWhoIsRefusedByOneOfThreeAsksTheOthers(t *testing.T) {
	fivefold(t, func(t *testing.T, quorum *Store, list []*node) {
		req, first, others := unfenced(quorum, list)
		acquire(t, first[2].Store, request("x"))
		acquire(t, quorum, req)
		wantCounts(t, others, 1, 0)
	})
}

// The timer may fire just as the lease is released, and the others be asked only
// when the token has acquired the name anew.
func TestTheOtherNodesAreNotAskedForALeaseThatIsForgotten(t *testing.T) {
	fivefold(t, func(t *testing.T, quorum *Store, list []*node) {
		req, _, others := unfenced(quorum, list)
		acquire(t, quorum, req)
		late := newVote(quorum, quorum.tenures[key{req.Name, req.Token}], req)
		late.end(true)
		release(t, quorum, req, driver.Mine)
		synctest.Wait()
		acquire(t, quorum, req)
		quorum.fill(late, quorum.all()&^quorum.firstFor(req.Name))
		synctest.Wait()
		wantCounts(t, others, 0, 0)
		release(t, quorum, req, driver.Mine)
		synctest.Wait()
		if n := len(quorum.tenures); n != 0 {
			t.Errorf("%d tenures are known of a name that is free", n)
		}
	})
}

func TestAQuorumThatIsClosedAsksNobodyLater(t *testing.T) {
	fivefold(t, func(t *testing.T, quorum *Store, list []*node) {
		req, _, others := unfenced(quorum, list)
		acquire(t, quorum, req)
		quorum.Close()
		time.Sleep(time.Minute)
		wantCounts(t, others, 0, 0)
	})
}

func TestTheNodesShareTheNamesEvenlyAndInAllProcessesAlike(t *testing.T) {
	list := nodes(5)
	one, other := quorumOf(t, Options{}, list...), quorumOf(t, Options{}, list...)
	for i := range list {
		one.slow.met(i)
		other.slow.met(i)
	}
	shares := make([]int, len(list))
	for i := range 1000 {
		name := fmt.Sprint("name ", i)
		set := one.firstFor(name)
		if set != other.firstFor(name) || set.count() != 3 {
			t.Fatalf("%q: nodes %b and %b", name, set, other.firstFor(name))
		}
		for n := range list {
			if set.has(n) {
				shares[n]++
			}
		}
	}
	if slices.Min(shares) < 500 || slices.Max(shares) > 700 {
		t.Errorf("of 1000 names the nodes have %v", shares)
	}
	if one.firstFor(strings.Repeat("x", 500)).count() != 3 {
		t.Error("a long name has no majority")
	}
}
