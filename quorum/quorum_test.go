package quorum

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfastlock/holdfast/driver"
)

func TestAnEvenNumberOfNodesOrFewerThanThreeIsRefusedWithAReason(t *testing.T) {
	for n, reason := range map[int]string{
		0: "fewer than 3", 1: "fewer than 3", 2: "fewer than 3", 4: "no more failures than one of 3", 6: "no more failures than one of 5", 65: "63",
	} {
		store, err := New(make([]driver.Store, n), Options{})
		if store != nil || !errors.Is(err, driver.ErrMisconfigured) || !strings.Contains(err.Error(), reason) {
			t.Errorf("%d nodes: %v", n, err)
		}
	}
	if _, err := New(make([]driver.Store, 3), Options{NodeTimeout: -1}); !errors.Is(err, driver.ErrMisconfigured) {
		t.Errorf("a negative NodeTimeout: %v", err)
	}
}

// The answers come while the minority still has the request: nothing waits for it.
func TestASlowMinorityCostsNothing(t *testing.T) {
	for _, n := range []int{3, 5} {
		list := nodes(n)
		quorum := quorumOf(t, Options{NodeTimeout: patient}, list...)
		slow := list[:n/2]
		for _, node := range slow {
			defer node.stop("")()
		}
		still := func(what string) {
			t.Helper()
			for _, node := range slow {
				eventually(t, what+" reaches the slow nodes, which keep it", func() bool { return node.waiting() > 0 })
			}
		}
		for _, bare := range []bool{false, true} {
			req := request("x")
			req.NoFence = bare
			acquire(t, quorum, req)
			still("Acquire")
			if result := extend(t, quorum, req); result.Answer != driver.Mine {
				t.Errorf("Extend: %+v", result)
			}
			if state, err := quorum.Inspect(within(t), "x"); err != nil || holderOf(state).Token != req.Token {
				t.Errorf("Inspect: %+v, %v", state, err)
			}
			if state := refuse(t, quorum, request("x")); holderOf(state).Token != req.Token {
				t.Errorf("refused by %+v", state)
			}
			release(t, quorum, req, driver.Mine)
			still("Release")
		}
		for _, node := range list[n/2:] {
			if node.waiting() > 0 {
				t.Error("a fast node is held up")
			}
		}
	}
}

func TestExactlyAMajorityIsNeeded(t *testing.T) {
	list := nodes(5)
	quorum := quorumOf(t, Options{NodeTimeout: patient}, list...)
	list[0].breakWith(down)
	list[1].breakWith(down)
	req := request("x")
	acquire(t, quorum, req)
	release(t, quorum, req, driver.Mine)

	list[2].breakWith(down)
	_, err := quorum.Acquire(within(t), request("x"))
	if text := errorText(err); !errors.Is(err, driver.ErrUnreachable) ||
		!strings.Contains(text, " of 5 nodes") || !strings.Contains(text, "connection refused") {
		t.Errorf("with three of five down: %v", err)
	}
	freeAt(t, "x", list...)
	for what, err := range map[string]error{
		"Extend":  extend(t, quorum, req).Err,
		"Inspect": second(quorum.Inspect(within(t), "x")),
		"Release": second(quorum.Release(within(t), driver.ReleaseRequest{Name: "x", Token: req.Token})),
	} {
		if !errors.Is(err, driver.ErrUnreachable) {
			t.Errorf("%s with three of five down: %v", what, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestWhatAMajorityRefusesIsRefused(t *testing.T) {
	list := nodes(3)
	quorum := quorumOf(t, Options{NodeTimeout: patient}, list...)
	full := &driver.Error{Kind: driver.ErrRefused, Err: errors.New("OOM"), Hint: "the server's memory is full"}
	list[0].breakWith(full)
	req := request("x")
	acquire(t, quorum, req)
	list[1].breakWith(full)
	if _, err := quorum.Acquire(within(t), request("y")); !errors.Is(err, driver.ErrRefused) || driver.Unknown(err) {
		t.Errorf("two of three refuse: %v", err)
	}
	list[1].breakWith(down)
	if _, err := quorum.Acquire(within(t), request("y")); !errors.Is(err, driver.ErrUnreachable) {
		t.Errorf("one refuses, one is down: %v", err)
	}
	freeAt(t, "y", list...)
}

func TestAnExtensionNeedsAMajority(t *testing.T) {
	list := nodes(3)
	quorum := quorumOf(t, Options{NodeTimeout: patient}, list...)
	req := request("x")
	acquire(t, quorum, req)
	eventually(t, "all nodes have granted it", func() bool {
		return list[0].heldBy(t, "x") != "" && list[1].heldBy(t, "x") != "" && list[2].heldBy(t, "x") != ""
	})
	list[0].Wipe()
	if result := extend(t, quorum, req); result.Answer != driver.Mine {
		t.Errorf("one of three has lost it: %+v", result)
	}
	list[1].breakWith(down)
	if result := extend(t, quorum, req); !errors.Is(result.Err, driver.ErrUnreachable) {
		t.Errorf("one has lost it, one may have it: %+v", result)
	}
	list[1].breakWith(nil)
	list[1].Wipe()
	if result := extend(t, quorum, req); result.Err != nil || result.Answer != driver.Gone {
		t.Errorf("two of three have lost it: %+v", result)
	}
	other := request("x")
	acquire(t, quorum, other)
	if result := extend(t, quorum, req); result.Err != nil || result.Answer != driver.Taken {
		t.Errorf("another has it: %+v", result)
	}
}

func TestAMajorityThatComesTooLateIsNoGrant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		list := nodes(3)
		quorum := quorumOf(t, Options{NodeTimeout: patient}, list...)
		req := request("x")
		req.TTL = time.Second
		for _, took := range []time.Duration{trusted(req.TTL) - 1, trusted(req.TTL)} {
			for _, node := range list[:2] {
				goOn := node.stop("acquire")
				time.AfterFunc(took, goOn)
			}
			result, err := quorum.Acquire(t.Context(), req)
			if intime := took < trusted(req.TTL); result.Granted != intime || intime != (err == nil) {
				t.Errorf("a majority after %v: granted %v, %v", took, result.Granted, err)
			}
			synctest.Wait()
			if err == nil {
				release(t, quorum, req, driver.Mine)
				synctest.Wait()
			} else if !errors.Is(err, driver.ErrUnreachable) || !strings.Contains(err.Error(), "too late") {
				t.Error(err)
			}
			for _, node := range list {
				if node.heldBy(t, "x") != "" {
					t.Error("it is left at a node")
				}
			}
		}
		quorum.Close()
	})
}

func TestCloseWaitsForWhatIsUnderWayAndNothingIsDoneAfter(t *testing.T) {
	list := nodes(3)
	quorum := quorumOf(t, Options{NodeTimeout: patient}, list...)
	goOn := list[0].stop("acquire")
	req := request("x")
	acquire(t, quorum, req)
	closed := make(chan struct{})
	go func() {
		quorum.Close()
		close(closed)
	}()
	eventually(t, "it is closed for new calls", func() bool {
		_, err := quorum.Inspect(within(t), "x")
		return errors.Is(err, driver.ErrUnreachable)
	})
	select {
	case <-closed:
		t.Error("Close returned while a request was under way")
	default:
	}
	goOn()
	<-closed
	if _, err := quorum.Acquire(context.Background(), request("y")); !errors.Is(err, driver.ErrUnreachable) {
		t.Errorf("Acquire after Close: %v", err)
	}
	quorum.Close()
}
