package check_test

import (
	"slices"
	"testing"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/holdfastlock/holdfast/torture/check"
	"github.com/holdfastlock/holdfast/torture/history"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestACorrectLockPasses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		report := check.Check(correct(t), simRules())
		for _, v := range report.Violations {
			t.Errorf("%s of %s: %s", v.Kind, v.Name, v.Text)
		}
		if report.Ordering.Undecided > 0 {
			t.Errorf("%d pieces were not decided", report.Ordering.Undecided)
		}
	})
}

// correct returns the history of a correct lock.
func correct(t *rapid.T) []history.Event {
	s := newSimulation(rapid.Uint64().Draw(t, "seed"))
	s.lost = rapid.IntRange(0, 5).Draw(t, "lost")
	s.losses = rapid.Bool().Draw(t, "losses")
	s.unfenced = rapid.Bool().Draw(t, "unfenced")
	return s.run(rapid.IntRange(1, 6).Draw(t, "clients"), 600)
}

func TestAHistoryWithEventsMissingIsJudgedAllTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		left := rapid.IntRange(1, 99).Draw(t, "percent left")
		events := slices.DeleteFunc(correct(t), func(e history.Event) bool { return int(e.At%100) >= left })
		if report := check.Check(events, simRules()); report.Faults == nil {
			t.Error("there is no report")
		}
	})
}

// What the simulated store can do wrong once, by what it is found. Not every
// time can it be seen in the history, so only in some of the runs.
var bugs = map[bug][]string{
	grantsTwice:   {check.Exclusion},
	repeatsFence:  {check.Fence},
	freesAnother:  {check.Exclusion},
	letsStaleIn:   {check.StaleWrite},
	forgetsWrite:  {check.MissingWrite},
	finishesTwice: {check.Slot},
	refusesFree:   {check.Linearizability},
	sticks:        {check.Linearizability, check.Progress},
}

func TestAStoreThatIsWrongOnceIsFoundOut(t *testing.T) {
	const seeds = 20
	for wrong, by := range bugs {
		t.Run(string(wrong), func(t *testing.T) {
			happened, found := 0, 0
			for seed := range uint64(seeds) {
				s := newSimulation(seed)
				s.bug, s.patient = wrong, int(seed%3)
				report := check.Check(s.run(4, 1500), simRules())
				shown := slices.ContainsFunc(by, func(kind string) bool { return slices.Contains(kinds(report), kind) })
				if shown && !s.bugged {
					t.Errorf("seed %d: found %v, but nothing was wrong", seed, report.Violations)
				}
				if s.bugged {
					happened++
				}
				if shown {
					found++
				}
			}
			t.Logf("found in %d of %d runs in which it happened", found, happened)
			if found == 0 {
				t.Errorf("found in none of %d runs in which it happened", happened)
			}
		})
	}
}

// spoil puts one wrong thing into the history of a correct lock, or returns nil
// if there is no place for it. It is always to be found.
type spoil func(t *rapid.T, events []history.Event) []history.Event

var spoils = map[string]spoil{
	check.Exclusion:  secondHolder,
	check.Fence:      equalFence,
	check.LostUpdate: lostWrite,
	check.Slot:       doubleDone,
}

func TestOneWrongEventIsFound(t *testing.T) {
	for kind, spoil := range spoils {
		t.Run(kind, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				s := newSimulation(rapid.Uint64().Draw(t, "seed"))
				s.lost = rapid.IntRange(0, 5).Draw(t, "lost")
				events := spoil(t, s.run(4, 300))
				if events == nil {
					t.Skip("no place for it")
				}
				if found := kinds(check.Check(events, simRules())); !slices.Contains(found, kind) {
					t.Errorf("found %q", found)
				}
			})
		})
	}
}

// one returns one of the events for which is is true.
func one(t *rapid.T, events []history.Event, is func(history.Event) bool) (history.Event, bool) {
	some := slices.DeleteFunc(slices.Clone(events), func(e history.Event) bool { return !is(e) })
	if len(some) == 0 {
		return history.Event{}, false
	}
	return rapid.SampledFrom(some).Draw(t, "event"), true
}

func isGrant(e history.Event) bool {
	return e.Kind == history.Return && e.Do == history.Acquire && e.Outcome == history.OK
}

// secondHolder lets another be granted the lock just after somebody was.
func secondHolder(t *rapid.T, events []history.Event) []history.Event {
	grant, ok := one(t, events, isGrant)
	if !ok {
		return nil
	}
	call := history.Event{At: grant.At - 1, Kind: history.Call, Process: "x", Op: 1, Do: history.Acquire, Name: grant.Name}
	answer := grant
	answer.Process, answer.Op, answer.At, answer.Fence = "x", 1, grant.At+1, grant.Fence+1
	return append(events, call, answer)
}

// equalFence gives somebody the fence of another.
func equalFence(t *rapid.T, events []history.Event) []history.Event {
	first, ok := one(t, events, isGrant)
	if !ok {
		return nil
	}
	later := slices.IndexFunc(events, func(e history.Event) bool { return isGrant(e) && e.Name == first.Name && e.At > first.At })
	if later < 0 {
		return nil
	}
	events[later].Fence = first.Fence
	return events
}

// lostWrite lets a guarded write be made from a version too old.
func lostWrite(t *rapid.T, events []history.Event) []history.Event {
	isUpdate := func(e history.Event) bool {
		return e.Kind == history.Accepted && e.Do == history.Write && e.Guarded && e.Based > 0
	}
	write, ok := one(t, events, isUpdate)
	if !ok {
		return nil
	}
	at := slices.Index(events, write)
	events[at].Based--
	return events
}

// doubleDone lets another attempt at a slot that is done be done too.
func doubleDone(t *rapid.T, events []history.Event) []history.Event {
	done, ok := one(t, events, func(e history.Event) bool { return e.Do == history.RunSlot && e.Outcome == history.OK })
	if !ok {
		return nil
	}
	began := slices.IndexFunc(events, func(e history.Event) bool {
		return e.Kind == history.Began && e.Process == done.Process && e.Op == done.Op
	})
	again := events[began]
	again.Process, again.Op, again.Attempt = "x", 1, again.Attempt+1
	again.At, again.Fence = done.At+2, done.At
	call := history.Event{At: done.At + 1, Kind: history.Call, Process: "x", Op: 1, Do: history.RunSlot, Name: again.Name, Slot: again.Slot}
	answer := done
	answer.Process, answer.Op, answer.At = "x", 1, done.At+3
	return append(events, call, again, answer)
}
