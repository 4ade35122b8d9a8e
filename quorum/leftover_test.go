package quorum

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfastlock/holdfast/driver"
)

func TestALateGrantAfterARefusalIsFreed(t *testing.T) {
	list := nodes(3)
	quorum := quorumOf(t, Options{NodeTimeout: patient}, list...)
	other := request("x")
	for _, node := range list[:2] {
		acquire(t, node.Store, other)
	}
	early, late := []func(){list[0].stop("acquire"), list[1].stop("acquire")}, list[2].stop("acquire")
	refused := make(chan driver.AcquireResult)
	go func() {
		result, _ := quorum.Acquire(t.Context(), request("x"))
		refused <- result
	}()
	eventually(t, "the third node has the request", func() bool { return list[2].waiting() > 0 })
	for _, goOn := range early {
		goOn()
	}
	if result := <-refused; result.Granted || holderOf(result.State).Token != other.Token {
		t.Errorf("the answer is %+v", result)
	}
	late()
	eventually(t, "the late grant is taken back", func() bool { return list[2].count("release") > 0 })
	freeAt(t, "x", list[2])
	for _, node := range list[:2] {
		if node.heldBy(t, "x") != other.Token {
			t.Error("the holder's key is gone")
		}
	}
}

func TestLateGrantsAfterACallWasGivenUpAreFreed(t *testing.T) {
	list := nodes(3)
	quorum := quorumOf(t, Options{NodeTimeout: patient}, list...)
	var goOns []func()
	for _, node := range list[:2] {
		goOns = append(goOns, node.stop("acquire"))
	}
	ctx, cancel := context.WithCancel(t.Context())
	given := make(chan error)
	go func() {
		_, err := quorum.Acquire(ctx, request("x"))
		given <- err
	}()
	eventually(t, "the third node grants it", func() bool { return list[2].heldBy(t, "x") != "" })
	eventually(t, "two have the request", func() bool { return list[0].waiting()+list[1].waiting() == 2 })
	cancel()
	if err := <-given; !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
	freeAt(t, "x", list[2])
	for _, goOn := range goOns {
		goOn()
	}
	eventually(t, "the late grants are taken back", func() bool { return list[0].count("release")+list[1].count("release") == 2 })
	freeAt(t, "x", list...)
}

// A request that was not answered may be carried out later: the tombstone is for
// that, but not while the token is asked for again and again, as a waiter does.
func TestAnAcquireThatIsNeverAnsweredFindsATombstone(t *testing.T) {
	list := nodes(3)
	quorum := quorumOf(t, Options{NodeTimeout: 20 * time.Millisecond}, list...)
	other := request("x")
	for _, node := range list[:2] {
		acquire(t, node.Store, other)
	}
	defer list[2].stop("acquire")()
	late := request("x")
	for asked := time.Now(); time.Since(asked) < firstSettle*3/2; time.Sleep(100 * time.Millisecond) {
		refuse(t, quorum, late)
	}
	if list[2].count("release") != 0 {
		t.Error("the token was withdrawn while it was asked for")
	}
	eventually(t, "the node is told", func() bool { return list[2].count("release") > 0 })
	eventually(t, "the request that was left behind is refused", func() bool {
		_, err := list[2].Store.Acquire(t.Context(), late)
		return errors.Is(err, driver.ErrWithdrawn)
	})
}

func TestAReleaseIsRepeatedWhereItWasNotAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		list := nodes(3)
		quorum := quorumOf(t, Options{NodeTimeout: 100 * time.Millisecond}, list...)
		req := request("x")
		acquire(t, quorum, req)
		synctest.Wait()
		goOn := list[2].stop("release")
		release(t, quorum, req, driver.Mine)
		time.Sleep(firstSettle + longestSettle)
		if list[2].heldBy(t, "x") == "" {
			t.Fatal("the node is free although it has not answered")
		}
		goOn()
		time.Sleep(longestSettle)
		if list[2].heldBy(t, "x") != "" {
			t.Error("the node that was slow is not free")
		}
		// Until the releases can't be on their way any more the node does not count.
		list[0].breakWith(down)
		if _, err := quorum.Acquire(t.Context(), req); !errors.Is(err, driver.ErrUnreachable) {
			t.Errorf("the same token: %v", err)
		}
		acquire(t, quorum, request("x"))
		quorum.Close()
	})
}

// wantFreeWhenBack ends what ails a node, in fake time, after which it is asked again.
func wantFreeWhenBack(t *testing.T, node *node) {
	t.Helper()
	time.Sleep(firstSettle + longestSettle)
	node.breakWith(nil)
	time.Sleep(longestSettle)
	if node.heldBy(t, "x") != "" {
		t.Error("the node that was down is not free")
	}
}

// A node that refuses connections has heard nothing of the release, and may come
// back with all its data.
func TestAReleaseIsRepeatedWhereTheNodeWasDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		list := nodes(3)
		quorum := quorumOf(t, Options{NodeTimeout: 100 * time.Millisecond}, list...)
		req := request("x")
		acquire(t, quorum, req)
		synctest.Wait()
		list[2].breakWith(down)
		release(t, quorum, req, driver.Mine)
		wantFreeWhenBack(t, list[2])
		quorum.Close()
	})
}

// What a lost vote has got at a node is freed, also where that node is down by then.
func TestAVoteThatIsLostFreesANodeThatIsDownByThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		list := nodes(3)
		quorum := quorumOf(t, Options{NodeTimeout: 100 * time.Millisecond}, list...)
		other := request("x")
		acquire(t, list[0].Store, other)
		acquire(t, list[1].Store, other)
		late := list[1].stop("acquire")
		go func() {
			time.Sleep(50 * time.Millisecond)
			list[2].breakWith(down)
			late()
		}()
		refuse(t, quorum, request("x"))
		if list[2].heldBy(t, "x") == "" {
			t.Fatal("the node did not grant it")
		}
		wantFreeWhenBack(t, list[2])
		quorum.Close()
	})
}

// However the last answers and the end of the call follow each other.
func TestOfATenureThatIsOverNothingIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		quorum := quorumOf(t, Options{}, nodes(3)...)
		for range 300 {
			req, other := request("x"), request("x")
			acquire(t, quorum, req)
			refuse(t, quorum, other)
			release(t, quorum, req, driver.Mine)
			synctest.Wait()
			if n := len(quorum.tenures) + len(quorum.lanes); n != 0 {
				t.Fatalf("%d things are known of a name that is free", n)
			}
		}
		quorum.Close()
	})
}

// Two calls of a token may end at once, and find it over.
func TestATenureIsForgottenOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		list := nodes(3)
		quorum := quorumOf(t, Options{}, list...)
		req := request("x")
		acquire(t, quorum, req)
		mine := quorum.tenures[key{req.Name, req.Token}]
		next, err := quorum.enter(key{"x", "next"}, time.Second)
		if err != nil {
			t.Fatal(err)
		}
		release(t, quorum, req, driver.Mine)
		synctest.Wait()
		quorum.lose(mine)
		if lane := quorum.lanes["x"]; lane != next.lane || lane.users != 1 {
			t.Errorf("the lane is %+v", lane)
		}
		quorum.left(next, len(list))
		quorum.Close()
	})
}

// A release that had no answer has freed nodes: repeated, it is still Mine.
func TestARepeatedReleaseRemembersWhatItHasFreed(t *testing.T) {
	list := nodes(3)
	quorum := quorumOf(t, Options{NodeTimeout: patient}, list...)
	req := request("x")
	acquire(t, quorum, req)
	eventually(t, "all nodes have it", func() bool {
		return list[0].heldBy(t, "x")+list[1].heldBy(t, "x")+list[2].heldBy(t, "x") == req.Token+req.Token+req.Token
	})
	refused := &driver.Error{Kind: driver.ErrRefused}
	list[0].breakWith(refused)
	list[1].breakWith(refused)
	if _, err := quorum.Release(within(t), driver.ReleaseRequest{Name: "x", Token: req.Token}); !errors.Is(err, driver.ErrRefused) {
		t.Fatalf("two of three refuse the release: %v", err)
	}
	eventually(t, "the third is free", func() bool { return list[2].heldBy(t, "x") == "" })
	list[1].breakWith(nil)
	release(t, quorum, req, driver.Mine)
	list[0].breakWith(nil)
	release(t, quorum, req, driver.Gone)
}

func TestAFailedAcquireOfAHolderFreesNothing(t *testing.T) {
	list := nodes(3)
	quorum := quorumOf(t, Options{NodeTimeout: patient}, list...)
	req := request("x")
	acquire(t, quorum, req)
	list[0].breakWith(down)
	list[1].breakWith(down)
	if _, err := quorum.Acquire(within(t), req); !errors.Is(err, driver.ErrUnreachable) {
		t.Fatal(err)
	}
	list[0].breakWith(nil)
	list[1].breakWith(nil)
	if result := extend(t, quorum, req); result.Answer != driver.Mine {
		t.Errorf("the lease: %+v", result)
	}
	if n := list[2].count("release"); n != 0 {
		t.Errorf("%d releases", n)
	}
}

// The request to a node may come to its turn only when the lease that a majority
// has granted was released again.
func TestARequestThatIsOvertakenByTheReleaseLocksNothing(t *testing.T) {
	list := nodes(3)
	quorum := quorumOf(t, Options{NodeTimeout: patient}, list...)
	for range 50 {
		req := request("x")
		tenure, err := quorum.enter(key{req.Name, req.Token}, req.TTL)
		if err != nil {
			t.Fatal(err)
		}
		tenure.parts[2].mu.Lock()
		acquire(t, quorum, req)
		release(t, quorum, req, driver.Mine)
		tenure.parts[2].mu.Unlock()
		quorum.left(tenure, len(list))
		next := request("x")
		acquire(t, quorum, next)
		release(t, quorum, next, driver.Mine)
		freeAt(t, "x", list...)
	}
}
