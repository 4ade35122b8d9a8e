package memstore

import (
	"context"
	"iter"
	"time"

	"github.com/holdfastlock/holdfast/driver"
)

// List implements driver.Lister. What it yields is the state of one moment.
func (s *Store) List(ctx context.Context, pattern string) iter.Seq2[driver.State, error] {
	return func(yield func(driver.State, error) bool) {
		states, err := s.matching(ctx, pattern)
		if err != nil {
			yield(driver.State{}, err)
			return
		}
		for _, state := range states {
			if !yield(state, nil) {
				return
			}
		}
	}
}

func (s *Store) matching(ctx context.Context, pattern string) ([]driver.State, error) {
	return carryOut(ctx, s, "list", func(now time.Time) ([]driver.State, error) {
		var states []driver.State
		for name := range s.locks {
			l := s.current(name, now)
			if len(l.holders) > 0 && driver.Match(pattern, name) {
				states = append(states, l.state(name, now))
			}
		}
		return states, nil
	})
}
