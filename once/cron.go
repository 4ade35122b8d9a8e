package once

import (
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

// Cron has a slot for each occurrence of a crontab expression with five fields,
// or @daily and the like, in a time zone such as "Europe/Paris"; an empty zone
// is UTC. As with Every, a start shortly before an occurrence belongs to it and
// waits, and any other start belongs to the one before.
//
// Where the clocks are changed, an occurrence that does not exist that day is
// at the moment of the change, and one that exists twice is the first of both.
// If the hour is *, an occurrence is not a time of day: then the hour that comes
// twice has its occurrences twice.
func Cron(expr, zone string) Schedule {
	location, err := time.LoadLocation(zone)
	if err != nil {
		return Schedule{err: misconfigured("time zone %q: %w", zone, err)}
	}
	if strings.Contains(expr, "TZ=") {
		return Schedule{err: misconfigured("cron expression %q: give the time zone beside it, not in it", expr)}
	}
	parsed, err := cron.ParseStandard(expr)
	if err != nil {
		return Schedule{err: misconfigured("cron expression %q: %w", expr, err)}
	}
	spec, ok := parsed.(*cron.SpecSchedule)
	if !ok {
		return Schedule{err: misconfigured("cron expression %q: use Every for an interval", expr)}
	}
	t := table{spec, location}
	if t.spec.Next(time.Time{}.AddDate(2000, 0, 0)).IsZero() { // of any five years
		return Schedule{err: misconfigured("cron expression %q: it never comes", expr)}
	}
	return Schedule{near: func(now time.Time) (around, error) {
		a, found := t.around(now)
		if !found {
			return a, misconfigured("cron expression %q: there was none in five years", expr)
		}
		return a, nil
	}}
}

// table is a cron expression in a time zone. Its expression is read as one of
// readings of the zone's clock, which are kept as times in UTC; reading and
// instant translate.
type table struct {
	spec *cron.SpecSchedule // its location is local: that of the time given
	zone *time.Location
}

// anyHour is the bit that the parser sets for a * in the field of the hour.
const anyHour = 1 << 63

// everyHour says that the expression is no time of day, so that it goes by
// instants and not by readings.
func (t table) everyHour() bool { return t.spec.Hour&anyHour != 0 }

func (t table) reading(now time.Time) time.Time {
	now = now.In(t.zone)
	if t.everyHour() {
		return now
	}
	_, offset := now.Zone()
	return now.UTC().Add(time.Duration(offset) * time.Second)
}

// instant returns when the zone's clock first shows the reading or has passed
// over it.
func (t table) instant(reading time.Time) time.Time {
	if t.everyHour() || reading.IsZero() {
		return reading
	}
	const farthest = 26 * time.Hour // more than any zone is away from UTC
	at := reading.Add(-farthest).In(t.zone)
	for {
		_, offset := at.Zone()
		from, to := at.ZoneBounds()
		found := reading.Add(-time.Duration(offset) * time.Second)
		if found.Before(from) {
			found = from
		}
		if to.IsZero() || found.Before(to) {
			return found.In(t.zone)
		}
		at = to
	}
}

// searchYears is how far away an occurrence may be; the parser looks no further.
const searchYears = 5

// around finds the occurrences next to a moment by halving: the expression
// itself can only be asked for the next one. It is not found if there was none
// in the last years.
func (t table) around(now time.Time) (a around, found bool) {
	// At low the next occurrence is not after now; at high, a reading which the
	// clock shows after now whatever the change, it is.
	low, high := t.reading(now).AddDate(-searchYears, 0, 0), t.reading(now).Add(25*time.Hour)
	past := func(reading time.Time) bool {
		next := t.spec.Next(reading)
		return !next.IsZero() && !t.instant(next).After(now)
	}
	if !past(low) {
		return around{}, false
	}
	for high.Sub(low) > time.Second {
		if middle := low.Add(high.Sub(low) / 2); past(middle) {
			low = middle
		} else {
			high = middle
		}
	}
	last := t.spec.Next(low)
	return around{last: t.instant(last), next: t.instant(t.spec.Next(last))}, true
}
