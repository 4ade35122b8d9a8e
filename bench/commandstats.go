package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// counts is how often each command ran, by its name in lower case.
type counts map[string]int

// resetCounts makes the server count from 0.
func (s *server) resetCounts(ctx context.Context) error {
	return s.admin.Do(ctx, s.admin.B().ConfigResetstat().Build()).Error()
}

// counts returns how often each command ran since resetCounts, whether a client
// sent it or a script ran it. What asks for it is left out.
func (s *server) counts(ctx context.Context) (counts, error) {
	lines, err := s.info(ctx, "commandstats")
	if err != nil {
		return nil, err
	}
	c := counts{}
	for key, line := range lines {
		name, found := strings.CutPrefix(key, "cmdstat_")
		if !found || name == "info" || name == "config|resetstat" {
			continue
		}
		_, rest, _ := strings.Cut(line, "calls=")
		calls, _, _ := strings.Cut(rest, ",")
		if c[name], err = strconv.Atoi(calls); err != nil {
			return nil, fmt.Errorf("INFO commandstats: %s:%s", key, line)
		}
	}
	return c, nil
}

// without returns what is left of c.
func (c counts) without(other counts) counts {
	left := maps.Clone(c)
	for name, n := range other {
		if left[name] -= n; left[name] <= 0 {
			delete(left, name)
		}
	}
	return left
}

// each returns the counts for one of n operations, the most frequent first, as
// "2 get, 1 set".
func (c counts) each(n int) string {
	names := slices.SortedFunc(maps.Keys(c), func(a, b string) int {
		if c[a] != c[b] {
			return c[b] - c[a]
		}
		return strings.Compare(a, b)
	})
	var parts []string
	for _, name := range names {
		parts = append(parts, fmt.Sprintf("%s %s", short(float64(c[name])/float64(n)), name))
	}
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, ", ")
}

// short is the number with as many digits as it needs, two behind the point at
// the most.
func short(x float64) string {
	return strings.TrimSuffix(strings.TrimRight(strconv.FormatFloat(x, 'f', 2, 64), "0"), ".")
}

// total returns how many commands ran.
func (c counts) total() (n int) {
	for _, calls := range c {
		n += calls
	}
	return n
}
