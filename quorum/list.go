package quorum

import (
	"context"
	"iter"
	"time"

	"github.com/holdfastlock/holdfast/driver"
)

// listed is what a node lists.
type listed struct {
	node   int
	states []driver.State
	err    error
}

func (l listed) from() (int, bool) { return l.node, l.err != nil }

// List implements driver.Lister where all nodes do; else it yields
// driver.ErrUnsupported. A name is listed if a majority names its holder, or may,
// where nodes do not answer. The nodes that come last are waited for as long as for
// one request.
func (s *Store) List(ctx context.Context, pattern string) iter.Seq2[driver.State, error] {
	return func(yield func(driver.State, error) bool) {
		states, err := s.list(ctx, pattern)
		if err != nil {
			yield(driver.State{}, err)
			return
		}
		for name, of := range states {
			if state := s.merged(name, of); len(state.Holders) > 0 && !yield(state, nil) {
				return
			}
		}
	}
}

// list returns what the nodes say of each name, with a state for each node that
// has answered.
func (s *Store) list(ctx context.Context, pattern string) (map[string][]driver.State, error) {
	if ctx.Err() != nil {
		return nil, driver.NoAnswer(ctx, ctx.Err())
	}
	if err := s.open(); err != nil {
		return nil, err
	}
	asked, cancel := context.WithCancel(ctx)
	defer cancel()
	replies := make(chan listed, len(s.nodes))
	r := s.begin(taskFunc(func(i int) {
		defer s.running.Done()
		states, err := listAt(asked, s.nodes[i], pattern)
		replies <- listed{i, states, err}
	}), s.all(), 0)
	var errs failures
	var answers [][]driver.State
	err := collect(ctx, r, replies, func(r listed) bool {
		if r.err != nil {
			errs.note(r.node, r.err)
			return errs.count >= s.majority
		}
		answers = append(answers, r.states)
		if len(answers) == s.majority {
			time.AfterFunc(s.limit(0), cancel)
		}
		return false
	})
	switch {
	case err != nil:
		return nil, err
	case len(answers) < s.majority:
		return nil, errs.verdict(len(s.nodes), len(answers), s.majority)
	}
	return byName(answers), nil
}

func listAt(ctx context.Context, node driver.Store, pattern string) ([]driver.State, error) {
	lister, can := node.(driver.Lister)
	if !can {
		return nil, &driver.Error{Kind: driver.ErrUnsupported, Hint: "a node can't list what is held"}
	}
	var states []driver.State
	for state, err := range lister.List(ctx, pattern) {
		if err != nil {
			return nil, err
		}
		states = append(states, state)
	}
	return states, nil
}

// byName sorts the answers; a node that does not list a name says that it is free.
func byName(answers [][]driver.State) map[string][]driver.State {
	states := make(map[string][]driver.State)
	for i, answer := range answers {
		for _, state := range answer {
			of := states[state.Name]
			if of == nil {
				of = make([]driver.State, len(answers))
				states[state.Name] = of
			}
			of[i] = state
		}
	}
	return states
}
