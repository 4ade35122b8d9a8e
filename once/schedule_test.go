package once

import (
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/holdfastlock/holdfast"
)

// instant reads a time with a zone's offset, or fails the test.
func instant(t *testing.T, text string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func TestEveryRoundsDownAndTakesTheEarlyAlong(t *testing.T) {
	for _, c := range []struct {
		every     time.Duration
		now, slot string
	}{
		{24 * time.Hour, "2026-11-29T00:00:00Z", "2026-11-29T00:00:00Z"},
		{24 * time.Hour, "2026-11-29T17:08:11Z", "2026-11-29T00:00:00Z"},
		{24 * time.Hour, "2026-11-29T23:58:59.999Z", "2026-11-29T00:00:00Z"},
		{24 * time.Hour, "2026-11-29T23:59:00Z", "2026-11-30T00:00:00Z"},
		{24 * time.Hour, "2026-11-29T23:59:59.999Z", "2026-11-30T00:00:00Z"},
		{24 * time.Hour, "2026-11-30T01:30:00+02:00", "2026-11-29T00:00:00Z"},
		{7 * 24 * time.Hour, "2026-11-29T12:00:00Z", "2026-11-23T00:00:00Z"}, // a Monday
		{time.Minute, "2026-11-29T12:00:53.9Z", "2026-11-29T12:00:00Z"},
		{time.Minute, "2026-11-29T12:00:54Z", "2026-11-29T12:01:00Z"},
		{time.Second, "2026-11-29T12:00:00.89Z", "2026-11-29T12:00:00Z"},
		{time.Second, "2026-11-29T12:00:00.9Z", "2026-11-29T12:00:01Z"},
		{1500 * time.Millisecond, "2026-11-29T12:00:02Z", "2026-11-29T12:00:01.5Z"},
	} {
		o, err := Every(c.every).at(instant(t, c.now))
		if err != nil || o.slot != c.slot || !o.starts.Equal(instant(t, c.slot)) {
			t.Errorf("every %v at %s: slot %s from %v, %v, want %s", c.every, c.now, o.slot, o.starts, err, c.slot)
		}
	}
}

func TestCronTakesTheOccurrenceBeforeOrSoonAfter(t *testing.T) {
	for _, c := range []struct {
		expr, zone, now, slot string
	}{
		{"0 2 * * *", "", "2026-11-29T01:58:59Z", "2026-11-28T02:00:00Z"},
		{"0 2 * * *", "", "2026-11-29T01:59:00Z", "2026-11-29T02:00:00Z"},
		{"0 2 * * *", "", "2026-11-29T02:00:00Z", "2026-11-29T02:00:00Z"},
		{"0 2 * * *", "", "2026-11-29T23:00:00Z", "2026-11-29T02:00:00Z"},
		{"0 2 * * *", "Europe/Paris", "2026-11-29T01:00:00Z", "2026-11-29T01:00:00Z"},
		{"0 2 * * *", "Europe/Paris", "2026-07-01T00:00:00Z", "2026-07-01T00:00:00Z"},
		{"*/5 * * * *", "", "2026-11-29T12:04:29Z", "2026-11-29T12:00:00Z"},
		{"*/5 * * * *", "", "2026-11-29T12:04:30Z", "2026-11-29T12:05:00Z"},
		{"0 9 * * MON-FRI", "", "2026-11-29T12:00:00Z", "2026-11-27T09:00:00Z"}, // on a Sunday
		{"0 0 1 1 *", "", "2026-11-29T12:00:00Z", "2026-01-01T00:00:00Z"},
		{"0 0 29 2 *", "", "2026-11-29T12:00:00Z", "2024-02-29T00:00:00Z"},
		{"@daily", "Asia/Kolkata", "2026-11-29T12:00:00Z", "2026-11-28T18:30:00Z"},
	} {
		o, err := Cron(c.expr, c.zone).at(instant(t, c.now))
		if err != nil || o.slot != c.slot {
			t.Errorf("%q in %q at %s: slot %s, %v, want %s", c.expr, c.zone, c.now, o.slot, err, c.slot)
		}
	}
}

// slots walks through a time second by second of a step and returns the slots
// it meets.
func slots(t *testing.T, s Schedule, from, to string, step time.Duration) string {
	t.Helper()
	var met []string
	for now := instant(t, from); !now.After(instant(t, to)); now = now.Add(step) {
		o, err := s.at(now)
		if err != nil {
			t.Fatal(err)
		}
		if len(met) == 0 || met[len(met)-1] != o.slot {
			met = append(met, o.slot)
		}
	}
	return strings.Join(met, " ")
}

func TestCronOnTheDaysOnWhichTheClocksChange(t *testing.T) {
	for name, c := range map[string]struct {
		expr, zone, from, to, want string
	}{
		"a time that does not exist is at the moment of the change": {
			"30 2 * * *", "Europe/Paris", "2026-03-28T02:00:00Z", "2026-03-30T02:00:00Z",
			"2026-03-28T01:30:00Z 2026-03-29T01:00:00Z 2026-03-30T00:30:00Z",
		},
		"all times that do not exist are one": {
			"0,20,40 2 * * *", "Europe/Paris", "2026-03-28T12:00:00Z", "2026-03-29T12:00:00Z",
			"2026-03-28T01:40:00Z 2026-03-29T01:00:00Z",
		},
		"and one with a time at the change": {
			"30 2,3 * * *", "America/New_York", "2026-03-08T05:00:00Z", "2026-03-08T12:00:00Z",
			"2026-03-07T08:30:00Z 2026-03-08T07:00:00Z 2026-03-08T07:30:00Z",
		},
		"a time that exists twice is the first": {
			"30 2 * * *", "Europe/Paris", "2026-10-24T12:00:00Z", "2026-10-26T12:00:00Z",
			"2026-10-24T00:30:00Z 2026-10-25T00:30:00Z 2026-10-26T01:30:00Z",
		},
		"a time after the change is once": {
			"0 3 * * *", "Europe/Paris", "2026-10-24T12:00:00Z", "2026-10-26T12:00:00Z",
			"2026-10-24T01:00:00Z 2026-10-25T02:00:00Z 2026-10-26T02:00:00Z",
		},
		"every hour is every hour when one comes twice": {
			"0 * * * *", "Europe/Paris", "2026-10-24T23:30:00Z", "2026-10-25T03:30:00Z",
			"2026-10-24T23:00:00Z 2026-10-25T00:00:00Z 2026-10-25T01:00:00Z 2026-10-25T02:00:00Z 2026-10-25T03:00:00Z",
		},
		"and when one is missing": {
			"0 * * * *", "Europe/Paris", "2026-03-28T23:30:00Z", "2026-03-29T02:30:00Z",
			"2026-03-28T23:00:00Z 2026-03-29T00:00:00Z 2026-03-29T01:00:00Z 2026-03-29T02:00:00Z",
		},
		"a midnight that does not exist": {
			"@daily", "America/Santiago", "2026-09-05T12:00:00Z", "2026-09-07T12:00:00Z",
			"2026-09-05T04:00:00Z 2026-09-06T04:00:00Z 2026-09-07T03:00:00Z",
		},
		"a change by half an hour": {
			"15 2 * * *", "Australia/Lord_Howe", "2026-10-03T12:00:00Z", "2026-10-04T20:00:00Z",
			"2026-10-02T15:45:00Z 2026-10-03T15:30:00Z 2026-10-04T15:15:00Z",
		},
		"UTC has no such days": {
			"30 2 * * *", "", "2026-03-28T12:00:00Z", "2026-03-29T12:00:00Z",
			"2026-03-28T02:30:00Z 2026-03-29T02:30:00Z",
		},
	} {
		if got := slots(t, Cron(c.expr, c.zone), c.from, c.to, 10*time.Minute); got != c.want {
			t.Errorf("%s: %q in %s\ngot  %s\nwant %s", name, c.expr, c.zone, got, c.want)
		}
	}
}

// TestSlotsFollowEachOther: whatever the schedule, a slot is never before the
// one of a moment earlier, has begun or will within a minute, and belongs to its
// own beginning.
func TestSlotsFollowEachOther(t *testing.T) {
	schedules := []Schedule{Every(time.Second), Every(time.Minute), Every(7 * time.Hour), Every(24 * time.Hour)}
	for _, zone := range []string{"", "Europe/Paris", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia", "Africa/Casablanca"} {
		for _, expr := range []string{"* * * * *", "*/7 2 * * *", "0 0 * * *", "30 1-3 * * SUN", "15 2 29 3 *", "0 */6 1,15 * *"} {
			schedules = append(schedules, Cron(expr, zone))
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.SampledFrom(schedules).Draw(t, "schedule")
		now := time.UnixMilli(rapid.Int64Range(1.2e12, 2.4e12).Draw(t, "now"))
		later := now.Add(time.Duration(rapid.Int64Range(0, int64(48*time.Hour)).Draw(t, "later")))
		at := func(now time.Time) occasion {
			o, err := s.at(now)
			if err != nil {
				t.Fatal(err)
			}
			return o
		}
		o := at(now)
		if o.starts.Sub(now) > time.Minute {
			t.Fatalf("at %v the slot is %v", now, o.starts)
		}
		if next := at(later); next.starts.Before(o.starts) {
			t.Fatalf("slot %v at %v, and %v at %v", o.starts, now, next.starts, later)
		}
		if own := at(o.starts); own.slot != o.slot {
			t.Fatalf("at its beginning slot %s is %s", o.slot, own.slot)
		}
		if o.keep < time.Hour || o.keep > 40*365*24*time.Hour {
			t.Fatalf("kept for %v", o.keep)
		}
	})
}

func TestSchedulesThatMakeNoSenseAreRefused(t *testing.T) {
	for name, s := range map[string]Schedule{
		"none":            {},
		"empty slot":      Slot(""),
		"two lines":       Slot("a\nb"),
		"too often":       Every(time.Millisecond),
		"zone":            Cron("0 2 * * *", "Europe/Atlantis"),
		"six fields":      Cron("0 0 2 * * *", ""),
		"hour":            Cron("0 25 * * *", ""),
		"empty cron":      Cron("", ""),
		"a zone inside":   Cron("TZ=UTC 0 2 * * *", ""),
		"only a zone":     Cron("TZ=0", ""),
		"interval":        Cron("@every 1h", ""),
		"no such day":     Cron("0 0 31 2 *", ""),
		"once in the old": Cron("@reboot", ""),
	} {
		if _, err := s.at(time.Now()); !errors.Is(err, holdfast.ErrMisconfigured) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzCron(f *testing.F) {
	for _, expr := range []string{"0 2 * * *", "@daily", "*/5 1-3 1,2 JAN MON", "@every 1s", "TZ=", "? * * * *", "0 0 31 2 *"} {
		f.Add(expr)
	}
	f.Fuzz(func(t *testing.T, expr string) {
		s := Cron(expr, "Europe/Paris")
		now := time.Date(2026, 10, 25, 0, 59, 30, 0, time.UTC)
		if o, err := s.at(now); err == nil && (o.slot == "" || o.starts.After(now.Add(time.Minute))) {
			t.Errorf("%q: %+v", expr, o)
		}
	})
}
