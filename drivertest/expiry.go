package drivertest

import (
	"time"

	"github.com/holdfastlock/holdfast/driver"
)

func aLeaseEndsByTheStoresClock(t *trial) {
	req := request("ends")
	req.TTL = t.span()
	begin := time.Now()
	t.acquire(t.a, req)
	t.endsAfter(begin, req.TTL, "another token is granted the name", t.granted(t.b, request("ends")))
}

func anExtendedLeaseEndsLater(t *trial) {
	req := request("ends later")
	req.TTL = t.span()
	longer := 2 * req.TTL
	var begin time.Time
	t.eventually("a lease is extended before its end", func() bool { // not at once on a slow machine
		t.Helper()
		t.acquire(t.a, req)
		begin = time.Now()
		return t.tryExtend(t.a, req, longer) == driver.Mine
	})
	t.endsAfter(begin, longer, "another token is granted the name", t.granted(t.b, request("ends later")))
}

// anEndedLeaseIsNotRevived: what the holder sends after its end changes
// nothing, whether the name is free or has a successor.
func anEndedLeaseIsNotRevived(t *trial) {
	req, next := request("ended"), request("ended")
	req.TTL = t.span()
	begin := time.Now()
	t.acquire(t.a, req)
	t.endsAfter(begin, req.TTL, "the name is free", func() bool {
		t.Helper()
		return len(t.inspect(t.b, req.Name).Holders) == 0
	})
	t.extend(t.a, req, whole, driver.Gone)
	t.release(t.a, req, driver.Gone)
	t.free(req.Name)

	t.acquire(t.b, next)
	t.extend(t.a, req, whole, driver.Taken)
	t.refuse(t.a, req)
	t.release(t.a, req, driver.Taken)
	t.heldBy(next)
}
