package quorum

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/holdfastlock/holdfast/driver"
)

func TestWithTheNumbersOfAllNodesThereIsNothingToRaise(t *testing.T) {
	list := nodes(5)
	for i, node := range list { // clocks apart by hours, in no order
		node.Advance(time.Duration(i*7%5) * time.Hour)
	}
	quorum := quorumOf(t, Options{NodeTimeout: patient}, list...)
	v := newVote(quorum, &tenure{lane: &lane{}}, request("x"))
	v.tally.add(reply{node: 3, result: driver.AcquireResult{Granted: true, Fence: 40}}, v.req)
	for node, fence := range []int64{50, 10, 30} {
		v.tally.add(reply{node: node, result: driver.AcquireResult{Granted: true, Fence: fence}}, v.req)
	}
	if c := v.tally; c.choose().last != 40 || c.confirmed() {
		t.Errorf("of four nodes: %+v", c)
	}
	v.tally.add(reply{node: 4, result: driver.AcquireResult{Granted: true, Fence: 20}}, v.req)
	if c := v.tally.choose(); c.last != 30 || c.tell || !v.tally.confirmed() {
		t.Errorf("of all five: %+v", c)
	}
}

func TestAGrantWithoutFenceTakesOneRoundTrip(t *testing.T) {
	list := nodes(3)
	quorum := quorumOf(t, Options{NodeTimeout: patient}, list...)
	req := request("x")
	req.NoFence = true
	if fence := acquire(t, quorum, req); fence != 0 {
		t.Errorf("fence %d", fence)
	}
	release(t, quorum, req, driver.Mine)
	quorum.Close()
	for _, node := range list {
		if node.count("raise") != 0 || node.count("acquire") > 1 {
			t.Errorf("asked %v", node.counts)
		}
	}
}

// The node whose clock is ahead gives the largest number. Once it is down, the next
// number must come from those that were told of it.
func TestTheFenceIsKnownToAMajorityBeforeItIsGranted(t *testing.T) {
	for ahead := range 3 {
		list := nodes(3)
		list[ahead].Advance(time.Hour)
		quorum := quorumOf(t, Options{NodeTimeout: patient}, list...)
		other := (ahead + 1) % 3
		list[other].breakWith(down)
		req := request("x")
		first := acquire(t, quorum, req)
		release(t, quorum, req, driver.Mine)
		freeAt(t, "x", list...)
		list[other].breakWith(nil)
		list[ahead].breakWith(down)
		if second := acquire(t, quorum, request("x")); second <= first {
			t.Errorf("fence %d was granted after %d", second, first)
		}
	}
}

func TestAFenceThatTooFewHaveConfirmedIsNotGranted(t *testing.T) {
	list := nodes(3)
	list[0].Advance(time.Hour)
	quorum := quorumOf(t, Options{NodeTimeout: patient}, list...)
	list[2].breakWith(down)
	goOn := list[1].stop("raise")
	failed := make(chan error)
	go func() {
		_, err := quorum.Acquire(t.Context(), request("x"))
		failed <- err
	}()
	eventually(t, "the second node is told", func() bool { return list[1].waiting() > 0 })
	list[1].Wipe() // what it had granted is lost
	goOn()
	if err := <-failed; !errors.Is(err, driver.ErrUnreachable) {
		t.Errorf("one of three has the fence: %v", err)
	}
	freeAt(t, "x", list...)
}

func TestTheSameTokenIsGrantedTheSameFence(t *testing.T) {
	for late := range 3 {
		list := nodes(3)
		list[late].Advance(time.Hour) // the late one has the largest number
		quorum := quorumOf(t, Options{NodeTimeout: patient}, list...)
		goOn := list[late].stop("acquire")
		req := request("x")
		req.Fences = 16
		fence := acquire(t, quorum, req)
		goOn()
		for range 3 {
			if again := acquire(t, quorum, req); again != fence {
				t.Fatalf("fence %d, then %d", fence, again)
			}
		}
		another := quorumOf(t, Options{NodeTimeout: patient}, list...)
		if elsewhere := acquire(t, another, req); elsewhere < fence {
			t.Errorf("fence %d, in another process %d", fence, elsewhere)
		}
		// By its token the lease had in another process the fence, or a smaller one.
		state, err := another.Inspect(within(t), "x")
		if err != nil || holderOf(state).Fence < req.Last(fence) {
			t.Errorf("shown as %+v, %v", state, err)
		}
	}
}

func TestATokenThatHasLostTheNameIsGrantedALargerFence(t *testing.T) {
	list := nodes(3)
	quorum := quorumOf(t, Options{NodeTimeout: patient}, list...)
	req, other := request("x"), request("x")
	first := acquire(t, quorum, req)
	for _, node := range list {
		node.Advance(req.TTL)
	}
	second := acquire(t, quorum, other)
	release(t, quorum, other, driver.Mine)
	freeAt(t, "x", list...)
	if third := acquire(t, quorum, req); second <= first || third <= second {
		t.Errorf("fences %d, %d, %d", first, second, third)
	}
}

// weather makes a minority of the nodes, another one each time, fail in one way or
// another.
func weather(list []*node) {
	for _, node := range list {
		node.breakWith(nil)
		node.SetFault(nil)
	}
	for _, i := range rand.Perm(len(list))[:rand.IntN(len(list)/2+1)] {
		lost := &driver.Error{Kind: driver.ErrUnreachable, Err: errors.New("lost")}
		switch rand.IntN(3) {
		case 0:
			list[i].breakWith(down)
		case 1: // some requests are lost, some replies
			list[i].SetFault(faults(lost))
		case 2:
			goOn := list[i].stop("")
			time.AfterFunc(time.Duration(rand.IntN(5))*time.Millisecond, goOn)
		}
	}
}

// Processes compete while a minority of the nodes fails, another one each moment:
// never two at once, and each fence is larger than the one before.
func TestMinoritiesThatFailHarmNobody(t *testing.T) {
	for _, n := range []int{3, 5} {
		for _, fenced := range []bool{true, false} {
			t.Run(fmt.Sprintf("%d nodes, fence %v", n, fenced), func(t *testing.T) {
				t.Parallel() // most of the time they wait
				competeInWeather(t, nodes(n), fenced)
			})
		}
	}
}

func competeInWeather(t *testing.T, list []*node, fenced bool) {
	const processes, grants = 4, 40
	for _, node := range list {
		node.Advance(time.Duration(rand.IntN(1000)) * time.Millisecond)
	}
	var mu sync.Mutex
	var inside, granted int
	var last int64
	// What the weather leaves at a node is freed there after seconds, and by chance
	// the name can't be had until then, again and again.
	ctx, cancel := context.WithTimeout(t.Context(), 8*patience)
	defer cancel()
	enter := func(fence int64) {
		mu.Lock()
		defer mu.Unlock()
		if inside++; inside > 1 {
			t.Errorf("%d hold the name at once", inside)
		}
		if fenced && fence <= last {
			t.Errorf("fence %d was granted after %d", fence, last)
		}
		last = fence
		if granted++; granted == grants || t.Failed() {
			cancel()
		}
	}
	leave := func() {
		mu.Lock()
		defer mu.Unlock()
		inside--
	}
	var all sync.WaitGroup
	for range processes {
		quorum := quorumOf(t, Options{NodeTimeout: 20 * time.Millisecond}, list...)
		all.Go(func() {
			for ctx.Err() == nil {
				req := request("x")
				req.TTL, req.NoFence = 30*time.Second, !fenced
				if result, err := quorum.Acquire(ctx, req); err == nil && result.Granted {
					enter(result.Fence)
					time.Sleep(time.Duration(rand.IntN(500)) * time.Microsecond)
					if rand.IntN(8) == 0 {
						time.Sleep(alone) // it comes to the other nodes too
					}
					leave()
				}
				// Not under ctx: what was acquired is to be freed.
				_, _ = quorum.Release(context.Background(), driver.ReleaseRequest{Name: "x", Token: req.Token, Tombstone: time.Minute})
			}
		})
	}
	for ctx.Err() == nil {
		weather(list)
		time.Sleep(time.Duration(rand.IntN(3000)) * time.Microsecond)
	}
	all.Wait()
	for _, node := range list {
		node.breakWith(nil)
		node.SetFault(nil)
	}
	t.Logf("%d grants", granted)
	if granted < grants && !t.Failed() {
		t.Errorf("%d grants in all, want %d", granted, grants)
	}
}
