package holdfast

import (
	"sync/atomic"
	"time"
)

// instant is one moment on the clocks that a lease is judged by.
type instant struct {
	// at counts by Go's monotonic clock, which stops while the machine is
	// suspended.
	at time.Time
	// wall is the wall clock, which can be set, as time since 1970.
	wall time.Duration
	// boot is CLOCK_BOOTTIME, which goes on during suspension; always 0 where
	// the system has none.
	boot time.Duration
}

// since returns the time from earlier to i, by the clock that counted more: a
// clock that stood still must not lengthen a lease.
func (i instant) since(earlier instant) time.Duration {
	return max(i.at.Sub(earlier.at), i.boot-earlier.boot)
}

// jumped says whether between earlier and i the clocks disagree by more than
// tolerance: the wall clock was set, or the machine was suspended.
func (i instant) jumped(earlier instant, tolerance time.Duration) bool {
	mono := i.at.Sub(earlier.at)
	boot := i.boot - earlier.boot
	wall := i.wall - earlier.wall
	return boot-mono > tolerance || (wall-max(mono, boot)).Abs() > tolerance
}

// clock reads the current instant.
type clock func() instant

// systemClock returns the machine's clock. Inside a testing/synctest bubble,
// where Go's clock is fake and the system's is not, it is Go's clock alone.
func systemClock() clock {
	if _, ok := readBoottime(); !ok || clockIsFake() {
		return goClock
	}
	return (&bootClock{clock: goClock, boottime: readBoottime}).now
}

func goClock() instant {
	now := time.Now()
	return instant{at: now, wall: time.Duration(now.UnixNano())}
}

// bootClock is a clock beside which CLOCK_BOOTTIME is read. That takes a system
// call, longer than all else that is done of time, so it is read only where the
// machine may have been suspended since the last reading: the wall clock has gone
// on then, and Go's has not.
type bootClock struct {
	clock    clock // without boottime
	boottime func() (time.Duration, bool)
	last     atomic.Pointer[instant] // the last reading
}

const (
	// suspendedLeast is by how much the clocks must disagree. A shorter suspension
	// lies within the margin of a lease.
	suspendedLeast = time.Millisecond
	// readAgain is after how long boottime is read in any case: somebody may set
	// the wall clock back by just the time of a suspension.
	readAgain = time.Second
)

// now reads the clocks.
func (c *bootClock) now() instant {
	now := c.clock()
	if last := c.last.Load(); last != nil {
		mono := now.at.Sub(last.at)
		if mono < readAgain && (now.wall-last.wall-mono).Abs() < suspendedLeast {
			now.boot = last.boot + mono
			return now
		}
	}
	now.boot, _ = c.boottime()
	// Not where the process stood still between the two.
	if c.clock().at.Sub(now.at) < suspendedLeast {
		reading := now
		c.last.Store(&reading)
	}
	return now
}
