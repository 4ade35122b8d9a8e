// Package nemesis plans faults, and carries the plan out.
package nemesis

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// Fault is one fault of a plan.
type Fault struct {
	Kind Kind
	// Worker is the number of the worker whose process or network it is, from 1;
	// 0 for a fault of the servers.
	Worker int
	// At counts from the begin of the run.
	At time.Duration
	// For is how long it lasts; 0 for a fault of a moment.
	For time.Duration
	// Size is between 0 and 1: how far, how much or how many, as the kind has
	// it.
	Size float64
	// Op is its number in the history, when it is carried out.
	Op int64
}

// String returns the fault in one line.
func (f Fault) String() string {
	text := f.Kind.Name
	if f.Worker > 0 {
		text += fmt.Sprintf(" of w%d", f.Worker)
	}
	if f.For > 0 {
		text += " for " + f.For.Round(time.Millisecond).String()
	}
	return text
}

// Spec says what to plan.
type Spec struct {
	Seed    uint64
	Length  time.Duration
	Workers int
	TTL     time.Duration
	Kinds   []Kind
}

// storm is how long faults come, until there is a calm in which everything must
// work again.
func (s Spec) storm() time.Duration { return 10 * s.TTL }

// Calm is how long there are no faults then, and at the end: long enough for the
// last lease to end and the locks to be taken again.
func (s Spec) Calm() time.Duration { return 2*s.TTL + 3*time.Second }

// Plan returns the faults by the time at which they begin. It is the same for
// the same Spec.
func Plan(s Spec) []Fault {
	var plan []Fault
	for _, lane := range []Lane{Servers, Processes, Networks} {
		var kinds []Kind
		for _, kind := range s.Kinds {
			if kind.Lane == lane {
				kinds = append(kinds, kind)
			}
		}
		switch {
		case len(kinds) == 0:
		case lane == Servers:
			plan = append(plan, s.lane(kinds, lane, 0)...)
		default:
			for worker := 1; worker <= s.Workers; worker++ {
				plan = append(plan, s.lane(kinds, lane, worker)...)
			}
		}
	}
	slices.SortStableFunc(plan, func(a, b Fault) int { return cmp.Compare(a.At, b.At) })
	return plan
}

// lane plans the faults of one lane, which has random choices of its own: kinds
// in a random order, each once before any comes again.
func (s Spec) lane(kinds []Kind, lane Lane, worker int) (plan []Fault) {
	r := rand.New(rand.NewPCG(s.Seed, uint64(lane)<<32|uint64(worker)))
	var deck []Kind
	for at := s.gap(r); ; at += s.gap(r) {
		if len(deck) == 0 {
			deck = slices.Clone(kinds)
			r.Shuffle(len(deck), func(i, j int) { deck[i], deck[j] = deck[j], deck[i] })
		}
		f := Fault{Kind: deck[0], Worker: worker, Size: r.Float64()}
		f.For = s.scaled(f.Kind.Shortest) + time.Duration(r.Float64()*float64(s.scaled(f.Kind.Longest-f.Kind.Shortest)))
		length := f.For + f.Kind.Healing
		f.At = s.inStorm(at, length)
		if f.At+length > s.Length-s.Calm() {
			return plan
		}
		deck = deck[1:]
		plan = append(plan, f)
		at = f.At + length
	}
}

// gap is the time between two faults of a lane.
func (s Spec) gap(r *rand.Rand) time.Duration {
	return s.scaled(ms(200)) + time.Duration(r.Float64()*float64(s.scaled(ms(1200))))
}

func (s Spec) scaled(d time.Duration) time.Duration {
	return time.Duration(float64(d) * s.TTL.Seconds())
}

// inStorm moves what would reach into a calm behind it.
func (s Spec) inStorm(at, length time.Duration) time.Duration {
	turn := s.storm() + s.Calm()
	if into := at % turn; into+length > s.storm() {
		return at - into + turn
	}
	return at
}
