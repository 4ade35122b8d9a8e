package doctor

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// pings is how many round trips are measured, and pingsWithin for how long, if
// they take longer.
const (
	pings       = 20
	pingsWithin = 3 * time.Second
)

// offset is how far a server's clock is before ours, give or take half the round
// trip in which it was read.
type offset struct {
	ahead, doubt time.Duration
	known        bool
}

func (o offset) String() string {
	switch {
	case o.ahead.Abs() <= o.doubt:
		return "as ours, give or take " + short(o.doubt)
	case o.ahead < 0:
		return short(-o.ahead) + " behind ours, give or take " + short(o.doubt)
	default:
		return short(o.ahead) + " ahead of ours, give or take " + short(o.doubt)
	}
}

// short rounds a time to what is worth reading.
func short(d time.Duration) string {
	unit := time.Microsecond
	for unit < time.Second && d > 100*unit {
		unit *= 10
	}
	return d.Round(unit).String()
}

// readClock reads a clock a few times; the shortest round trip leaves the least
// doubt. It ends at the first failure.
func readClock(read func() (time.Time, error)) (best offset, err error) {
	const readings = 5
	for range readings {
		before := time.Now()
		theirs, err := read()
		if err != nil {
			return best, err
		}
		half := time.Since(before) / 2
		if !best.known || half < best.doubt {
			best = offset{theirs.Sub(before.Round(0).Add(half)), half, true}
		}
	}
	return best, nil
}

// judgeClock judges a clock. No lease depends on it: the server measures a TTL by
// itself, and so does the holder.
func judgeClock(r *report, o offset) {
	const tolerable, wrong = time.Second, time.Minute
	away := o.ahead.Abs() - o.doubt
	const why = "leases don't depend on it, but once-per-slot jobs begin by the server's clock, and fences begin with it"
	switch {
	case away > wrong:
		r.add(Warning, "clock", o.String(), why, "let NTP set the clocks of both")
	case away > tolerable:
		r.add(Note, "clock", o.String(), why, "let NTP set the clocks of both")
	default:
		r.ok("clock", o.String())
	}
}

// judgeRoundTrips judges by the lease: it is extended every third of its TTL, and
// an answer counts from when it was asked for.
func judgeRoundTrips(r *report, trips []time.Duration) {
	slices.Sort(trips)
	median, longest := trips[len(trips)/2], trips[len(trips)-1]
	found := fmt.Sprintf("median %s, longest %s of %d", short(median), short(longest), len(trips))
	const fix = "use a store that is nearer, or a longer --ttl"
	switch {
	case longest > r.TTL/3:
		r.add(Failure, "round-trip", found, fmt.Sprintf("a lease of %s must be extended every %s, and is lost if that is not answered in time", r.TTL, short(r.TTL/3)), fix)
	case longest > r.TTL/20:
		r.add(Warning, "round-trip", found, fmt.Sprintf("that is much of the %s in which a lease of %s must be extended", short(r.TTL/3), r.TTL), fix)
	default:
		r.ok("round-trip", found)
	}
}

// measure measures round trips. It ends at the first failure.
func measure(trip func() error) (trips []time.Duration, err error) {
	for began := time.Now(); len(trips) < pings && time.Since(began) < pingsWithin; {
		before := time.Now()
		if err := trip(); err != nil {
			return trips, err
		}
		trips = append(trips, time.Since(before))
	}
	return trips, nil
}

// clock compares the server's clock with ours.
func clock(ctx context.Context, r *report, s *server) {
	read, err := readClock(func() (time.Time, error) {
		parts, err := s.do(ctx, "TIME").AsIntSlice()
		if err != nil || len(parts) < 2 {
			return time.Time{}, fmt.Errorf("TIME: %w", err)
		}
		return time.Unix(parts[0], parts[1]*int64(time.Microsecond)), nil
	})
	if err != nil {
		return // rights has said so
	}
	s.clock = read
	judgeClock(r, read)
}

// roundTrip measures how long the server takes to answer.
func roundTrip(ctx context.Context, r *report, s *server) {
	trips, err := measure(func() error { return s.do(ctx, "PING").Error() })
	if err == nil {
		judgeRoundTrips(r, trips)
	}
}
