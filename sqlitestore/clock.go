package sqlitestore

import "time"

// moment is a point in time on the two clocks of one machine, in microseconds.
//
// The boot clock counts from the start of the machine, also while it sleeps,
// and nobody can set it, so it is the one that is compared. It means something
// only within one boot: between boots, and between containers that were given
// another boot id, the wall clock is compared instead.
type moment struct {
	boot string // which run of the boot clock up belongs to; see bootID
	up   int64  // the boot clock, since boot
	wall int64  // the wall clock, since 1970
}

// longest keeps sums of times from overflowing.
const longest = 100 * 365 * 24 * time.Hour

// after returns the first moment at which d, 100 years at most, has certainly
// gone since m. Both clocks were truncated to a microsecond when m was read, and
// d may have a fraction of one: hence one more for each.
func (m moment) after(d time.Duration) moment {
	us := min(d, longest).Microseconds() + 2
	m.up += us
	m.wall += us
	return m
}

// before says whether m is certainly over at now. Strictly less: a lease that
// ends in this very microsecond is still held.
func (m moment) before(now moment) bool { return m.until(now) < 0 }

// until returns how long after now m is; negative when it is over.
func (m moment) until(now moment) time.Duration {
	if m.boot == now.boot {
		return time.Duration(m.up-now.up) * time.Microsecond
	}
	return time.Duration(m.wall-now.wall) * time.Microsecond
}
