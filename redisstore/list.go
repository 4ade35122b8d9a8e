package redisstore

import (
	"context"
	"iter"
	"strings"

	"github.com/holdfastlock/holdfast/driver"
)

// List implements driver.Lister. It walks over all keys of the server, or of
// every node of a cluster, a step at a time.
func (s *Store) List(ctx context.Context, pattern string) iter.Seq2[driver.State, error] {
	return func(yield func(driver.State, error) bool) {
		l := listing{store: s, pattern: pattern, seen: make(map[string]bool), yield: yield}
		err := s.walk(ctx, scanPattern(s.prefix, pattern), []string{"string"}, func(_ string, found []string) bool {
			return l.page(ctx, found)
		})
		if err != nil {
			yield(driver.State{}, err)
		}
	}
}

// listing is one List under way.
type listing struct {
	store   *Store
	pattern string
	yield   func(driver.State, error) bool
	seen    map[string]bool // SCAN repeats itself, and replicas their primary
}

// page yields the states of the locks among the keys and says whether the
// listing goes on.
func (l *listing) page(ctx context.Context, found []string) bool {
	states, err := l.store.inspectMany(ctx, l.names(found))
	if err != nil {
		l.yield(driver.State{}, err)
		return false
	}
	for _, state := range states {
		if len(state.Holders) > 0 && !l.yield(state, nil) {
			return false
		}
	}
	return true
}

// names leaves out what was seen before and what is not a lock, such as our
// other data.
func (l *listing) names(found []string) []string {
	var names []string
	for _, key := range found {
		name := strings.TrimPrefix(key, l.store.prefix)
		_, err := keysOf(l.store.prefix, name)
		if err == nil && !l.seen[name] && driver.Match(l.pattern, name) {
			l.seen[name] = true
			names = append(names, name)
		}
	}
	return names
}

// scanPattern gives SCAN a pattern that lets through at least what matches: in
// ours only * and ? are special, and ? is a character where SCAN has a byte.
func scanPattern(prefix, pattern string) string {
	inPrefix := strings.NewReplacer(`\`, `\\`, `[`, `\[`, `]`, `\]`, `*`, `\*`, `?`, `\?`)
	inPattern := strings.NewReplacer(`\`, `\\`, `[`, `\[`, `]`, `\]`, `?`, `?*`)
	return inPrefix.Replace(prefix) + inPattern.Replace(pattern)
}

// inspectMany reads many names, of one node of a cluster, in one round trip. A key
// that has meanwhile become something else than a lock is left out.
func (s *Store) inspectMany(ctx context.Context, names []string) ([]driver.State, error) {
	if len(names) == 0 {
		return nil, nil
	}
	runs := make([]run, len(names))
	for i, name := range names {
		k, err := keysOf(s.prefix, name)
		if err != nil {
			return nil, err
		}
		runs[i].keys = []string{k.lock, k.companion()}
	}
	return either(ctx, s, runs[0].keys[0], func() ([]driver.State, error) {
		return ask(ctx, s.connection, func(ctx context.Context, conn Conn) ([]driver.State, error) {
			return listed(names, callMany(ctx, conn, inspectScript, runs))
		})
	}, func() ([]driver.State, error) {
		return ask(ctx, s.connection, func(ctx context.Context, conn Conn) ([]driver.State, error) {
			return listed(names, readMany(ctx, conn, runs))
		})
	})
}

// listed reads the answers for these names.
func listed(names []string, replies []Reply) (states []driver.State, err error) {
	for i, result := range replies {
		reply, err := result.list(4)
		if text, yes := said(err); yes && faultOf(text) == faults["WRONGTYPE"] {
			continue
		}
		if err != nil {
			return nil, err
		}
		state, err := stateOf(names[i], reply)
		if err != nil {
			return nil, err
		}
		states = append(states, state)
	}
	return states, nil
}
