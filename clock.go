package holdfast

import "time"

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
	return func() instant {
		now := goClock()
		now.boot, _ = readBoottime()
		return now
	}
}

func goClock() instant {
	now := time.Now()
	return instant{at: now, wall: time.Duration(now.UnixNano())}
}
