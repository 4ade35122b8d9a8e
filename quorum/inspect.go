package quorum

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"github.com/holdfastlock/holdfast/driver"
)

// seen is what a node knows of a name.
type seen struct {
	node  int
	state driver.State
	err   error
}

func (s seen) from() (int, bool) { return s.node, s.err != nil }

// Inspect implements driver.Store. The holder is whom a majority names; where nodes
// do not answer, whom most of the others name, if the missing ones may too.
func (s *Store) Inspect(ctx context.Context, name string) (driver.State, error) {
	if err := driver.CheckName(name); err != nil {
		return driver.State{}, err
	}
	if ctx.Err() != nil {
		return driver.State{}, driver.NoAnswer(ctx, ctx.Err())
	}
	if err := s.open(); err != nil {
		return driver.State{}, err
	}
	replies := make(chan seen, len(s.nodes))
	r := s.begin(taskFunc(func(i int) {
		defer s.running.Done()
		state, err := s.nodes[i].Inspect(s.limits.context(s.limit(0)), name)
		replies <- seen{i, state, err}
	}), s.all(), 0)
	var states []driver.State
	var errs failures
	err := collect(ctx, r, replies, func(r seen) bool {
		if r.err != nil {
			errs.note(r.node, r.err)
		} else {
			states = append(states, r.state)
		}
		return errs.count >= s.majority || s.sure(name, states, errs.count)
	})
	switch {
	case err != nil:
		return driver.State{}, err
	case len(states) < s.majority:
		return driver.State{}, errs.verdict(len(s.nodes), len(states), s.majority)
	}
	return s.merged(name, states), nil
}

// sure says whether more states would change nothing.
func (s *Store) sure(name string, states []driver.State, failed int) bool {
	token, votes := most(states)
	if votes >= s.majority {
		_, sure := s.fence(name, token, states)
		return sure
	}
	pending := len(s.nodes) - len(states) - failed
	return len(states) >= s.majority && votes+pending < s.majority
}

// merged is what the states of a majority, or more, say together.
func (s *Store) merged(name string, states []driver.State) driver.State {
	token, votes := most(states)
	if votes == 0 || votes+len(s.nodes)-len(states) < s.majority {
		state := driver.State{Name: name}
		if fence, times := commonest(states, func(state driver.State) int64 { return state.Fence }); times >= s.majority {
			state.Fence = fence
		}
		return state
	}
	return s.heldBy(name, token, states)
}

// heldBy puts together what the states say of one holder. It has the name for as
// long as a majority keeps it; a node that has not answered may keep it longest.
func (s *Store) heldBy(name, token string, states []driver.State) driver.State {
	var holder driver.Holder
	var left []time.Duration
	for _, state := range states {
		h := holderOf(state)
		if h.Token != token {
			continue
		}
		holder.Token, holder.Mode, holder.Age = token, h.Mode, max(holder.Age, h.Age)
		if h.Purpose != "" {
			holder.Purpose = h.Purpose
		}
		if h.Left < 0 {
			h.Left = forEver
		}
		left = append(left, h.Left)
	}
	slices.SortFunc(left, func(a, b time.Duration) int { return cmp.Compare(b, a) })
	missing := len(s.nodes) - len(states)
	holder.Left = left[min(max(s.majority-missing, 1), len(left))-1]
	if holder.Left == forEver {
		holder.Left = -1
	}
	if won := s.grantOf(key{name, token}); !won.since.IsZero() {
		holder.Age = max(holder.Age, time.Since(won.since))
	}
	holder.Fence, _ = s.fence(name, token, states)
	return driver.State{Name: name, Holders: []driver.Holder{holder}, Fence: holder.Fence}
}

// forEver stands for a key that does not expire.
const forEver = time.Duration(math.MaxInt64)

// fence returns the last fencing token of a holder, and whether that is sure: it
// was agreed on in this process, or all nodes have said what they know. Else it may
// be too small, and is never too large: at least a majority had the number or a
// larger one, and at least a majority that or a smaller one.
func (s *Store) fence(name, token string, states []driver.State) (last int64, sure bool) {
	if won := s.grantOf(key{name, token}); won.last > 0 {
		return won.last, true
	}
	var numbers []int64
	for _, state := range states {
		if h := holderOf(state); h.Token == token {
			numbers = append(numbers, h.Fence)
		}
	}
	slices.Sort(numbers)
	return numbers[max(0, len(numbers)-s.majority)], len(states) == len(s.nodes)
}

// holderOf returns who holds the name in a state, or nobody.
func holderOf(state driver.State) driver.Holder {
	if len(state.Holders) == 0 {
		return driver.Holder{}
	}
	return state.Holders[0]
}

// most returns the token that most of the states name, and how many do; 0 if all
// say that the name is free.
func most(states []driver.State) (token string, votes int) {
	held := slices.DeleteFunc(slices.Clone(states), func(state driver.State) bool { return len(state.Holders) == 0 })
	return commonest(held, func(state driver.State) string { return holderOf(state).Token })
}

// commonest returns the value that most of the states have, and how many do.
func commonest[T comparable](states []driver.State, of func(driver.State) T) (value T, times int) {
	for i, state := range states {
		candidate, n := of(state), 0
		for _, other := range states[i:] {
			if of(other) == candidate {
				n++
			}
		}
		if n > times {
			value, times = candidate, n
		}
	}
	return value, times
}
