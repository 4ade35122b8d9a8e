package drivertest

import (
	"errors"
	"time"

	"github.com/holdfastlock/holdfast/driver"
)

func releaseComparesTheToken(t *trial) {
	held, stranger := request("release"), request("release")
	t.release(t.a, stranger, driver.Gone)
	t.acquire(t.a, held)

	t.release(t.b, stranger, driver.Taken)
	t.heldBy(held)
	t.leftOver(held.Name, half)

	t.release(t.b, held, driver.Mine)
	t.free(held.Name)
	t.release(t.a, held, driver.Gone)
}

func aLateReleaseLeavesTheSuccessorAlone(t *trial) {
	first, second := request("late"), request("late")
	first.TTL = t.span()
	begin := time.Now()
	before := t.acquire(t.a, first)
	t.endsAfter(begin, first.TTL, "the successor is granted the name", t.granted(t.b, second))

	t.release(t.a, first, driver.Taken)
	t.heldBy(second)
	if after := t.acquire(t.b, second); after <= before {
		t.Errorf("the successor's fence is %d, want more than %d", after, before)
	}
}

func aTombstoneRefusesItsTokenOnly(t *trial) {
	late, held, next := request("tombstone"), request("tombstone"), request("tombstone")
	bury := func(req driver.AcquireRequest, want driver.Answer) {
		t.Helper()
		t.releaseWith(t.a, driver.ReleaseRequest{Name: req.Name, Token: req.Token, Tombstone: whole}, want)
	}
	bury(late, driver.Gone)
	t.withdrawn(late)
	t.free(late.Name)

	t.acquire(t.b, held)
	t.withdrawn(late)
	t.heldBy(held)
	bury(late, driver.Taken)
	t.heldBy(held)

	bury(held, driver.Mine)
	t.free(held.Name)
	t.withdrawn(held)
	t.acquire(t.a, next)
	t.heldBy(next)
}

// withdrawn checks that both handles refuse the token.
func (t *trial) withdrawn(req driver.AcquireRequest) {
	t.Helper()
	for _, store := range []driver.Store{t.a, t.b} {
		result, err := store.Acquire(t.in(), req)
		if !errors.Is(err, driver.ErrWithdrawn) {
			t.Fatalf("Acquire with a tombstoned token: granted %v, %v, want ErrWithdrawn", result.Granted, err)
		}
	}
}

func aTombstoneEnds(t *trial) {
	req := request("tombstone ends")
	span := t.span()
	begin := time.Now()
	t.releaseWith(t.a, driver.ReleaseRequest{Name: req.Name, Token: req.Token, Tombstone: span}, driver.Gone)
	t.endsAfter(begin, span, "the token is accepted again", func() bool {
		t.Helper()
		result, err := t.b.Acquire(t.in(), req)
		if err != nil && !errors.Is(err, driver.ErrWithdrawn) {
			t.Fatalf("Acquire: %v", err)
		}
		return result.Granted
	})
}
