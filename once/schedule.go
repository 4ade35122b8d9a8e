package once

import (
	"fmt"
	"time"

	"github.com/holdfastlock/holdfast/driver"
)

// Schedule says which slot it is at a moment of the store's clock. Make one with
// Every, Cron or Slot.
type Schedule struct {
	fixed string                              // of Slot
	near  func(now time.Time) (around, error) // of Every and Cron
	err   error
}

// around are the beginnings of the slots next to a moment.
type around struct {
	last time.Time // not after it
	next time.Time // after it; zero: none for years
}

// occasion is the slot that a start at some moment belongs to.
type occasion struct {
	slot   string
	starts time.Time     // zero: has always begun
	keep   time.Duration // how long the slot must be known to be done
}

// Err returns an error that matches holdfast.ErrMisconfigured if the schedule
// makes no sense; Run returns it too.
func (s Schedule) Err() error {
	if s.err == nil && s.near == nil && s.fixed == "" {
		return misconfigured("the schedule is empty: use Every, Cron or Slot")
	}
	return s.err
}

// Slot is one slot with a text of your own, such as the number of an invoice or
// a date: 1 to 120 bytes without control characters. It is known to be done for
// at least 30 days.
func Slot(text string) Schedule {
	return Schedule{fixed: text, err: driver.CheckSlot(text)}
}

// Every has a slot for each d, which is at least a second: the store's time in
// UTC, rounded down to a multiple of d, so that days begin at midnight and weeks
// on Monday. A start within a minute before the next slot, or a tenth of d if
// that is less, belongs to the next slot and waits for it.
func Every(d time.Duration) Schedule {
	if d < time.Second {
		return Schedule{err: misconfigured("Every(%v) is shorter than a second", d)}
	}
	return Schedule{near: func(now time.Time) (around, error) {
		last := now.UTC().Truncate(d)
		return around{last, last.Add(d)}, nil
	}}
}

// at returns the slot for a start at now.
func (s Schedule) at(now time.Time) (occasion, error) {
	if err := s.Err(); err != nil {
		return occasion{}, err
	}
	if s.fixed != "" {
		return occasion{slot: s.fixed, keep: longKeep}, nil
	}
	a, err := s.near(now)
	if err != nil {
		return occasion{}, err
	}
	return a.pick(now), nil
}

// A start this close before a slot belongs to it: hosts' clocks differ, and one
// that is early must not find the last slot done and leave the next to nobody.
const (
	earlyAtMost = time.Minute
	earlyShare  = 10 // a tenth of the time between the two slots
)

// pick returns the one of both slots that a start at now belongs to.
func (a around) pick(now time.Time) occasion {
	starts, gap := a.last, longKeep
	if !a.next.IsZero() {
		gap = a.next.Sub(a.last)
		if a.next.Sub(now) <= min(earlyAtMost, gap/earlyShare) {
			starts = a.next
		}
	}
	return occasion{slot: starts.UTC().Format(time.RFC3339Nano), starts: starts, keep: keepFor(gap)}
}

// How long a slot is known to be done: long enough to be found in the list of
// runs, and never shorter than another host may come late.
const (
	shortKeep = time.Hour
	longKeep  = driver.RunningKeep
)

func keepFor(gap time.Duration) time.Duration {
	inList := longKeep
	if gap < longKeep/driver.MaxRuns {
		inList = gap * driver.MaxRuns
	}
	return max(shortKeep, inList, 3*gap)
}

func misconfigured(format string, args ...any) error {
	return &driver.Error{Kind: driver.ErrMisconfigured, Err: fmt.Errorf(format, args...)}
}
