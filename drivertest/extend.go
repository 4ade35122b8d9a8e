package drivertest

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/holdfastlock/holdfast/driver"
)

func extendComparesTheToken(t *trial) {
	held, stranger := request("extend"), request("extend")
	held.TTL = brief
	t.extend(t.a, stranger, whole, driver.Gone)
	t.free(held.Name)
	t.acquire(t.a, held)

	t.extend(t.b, stranger, whole, driver.Taken)
	t.heldBy(held)
	if left := t.holder(t.b, held.Name).Left; left > half {
		t.Errorf("a stranger's extend made the lease last %v", left)
	}
}

func extendLengthens(t *trial) {
	req := request("extend")
	req.TTL = brief
	fence := t.acquire(t.a, req)
	t.extend(t.b, req, whole, driver.Mine)
	t.leftOver(req.Name, half)
	if got := t.holder(t.a, req.Name).Fence; got != fence {
		t.Errorf("fence %d after an extend, want %d", got, fence)
	}
}

func extendNeverShortens(t *trial) {
	req := request("extend")
	t.acquire(t.a, req)
	t.extend(t.a, req, time.Millisecond, driver.Mine)
	t.leftOver(req.Name, half)
}

// manyLeasesAreExtendedInOneCall sends more leases than one batch of a store
// may hold, good and bad ones mixed, one of them twice.
func manyLeasesAreExtendedInOneCall(t *trial) {
	const leases = 250
	var reqs []driver.ExtendRequest
	var want []driver.Answer
	ask := func(req driver.AcquireRequest, answer driver.Answer) {
		reqs = append(reqs, driver.ExtendRequest{Name: req.Name, Token: req.Token, TTL: whole})
		want = append(want, answer)
	}
	for i := range leases {
		req := request(fmt.Sprintf("many:%d", i))
		req.TTL = brief
		switch i % 5 {
		case 1:
			ask(request("~bad"), 0)
		case 2:
			ask(req, driver.Gone)
		case 4:
			t.acquire(t.a, req)
			ask(request(req.Name), driver.Taken)
		default:
			t.acquire(t.a, req)
			ask(req, driver.Mine)
		}
	}
	reqs, want = append(reqs, reqs[0]), append(want, driver.Mine)

	given := slices.Clone(reqs)
	results := t.b.Extend(t.in(), reqs)
	if !slices.Equal(given, reqs) {
		t.Error("Extend changed the slice that it was given")
	}
	t.answers(results, reqs, want)
	t.leftOver("many:0", half)
	t.leftOver("many:248", half)
}

// answers compares; a wanted 0 stands for a *driver.NameError.
func (t *trial) answers(results []driver.ExtendResult, reqs []driver.ExtendRequest, want []driver.Answer) {
	t.Helper()
	if len(results) != len(want) {
		t.Fatalf("Extend of %d leases gave %d results", len(want), len(results))
	}
	for i, result := range results {
		if want[i] == 0 {
			t.nameError(result.Err, reqs[i].Name)
			continue
		}
		if result.Err != nil || result.Answer != want[i] {
			t.Fatalf("Extend %q, number %d of many: %v, %v, want %v", reqs[i].Name, i, result.Answer, result.Err, want[i])
		}
	}
}

func (t *trial) nameError(err error, name string) {
	t.Helper()
	var refused *driver.NameError
	if !errors.As(err, &refused) {
		t.Fatalf("name %.40q: error %v, want a *driver.NameError", name, err)
	}
}

func anExtendOfNothingIsNothing(t *trial) {
	for _, none := range [][]driver.ExtendRequest{nil, {}} {
		if results := t.a.Extend(t.in(), none); len(results) != 0 {
			t.Errorf("Extend of no lease gave %d results", len(results))
		}
	}
}
