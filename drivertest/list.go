package drivertest

import (
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/holdfastlock/holdfast/driver"
)

// lister returns nil, and says so, where the store can't list.
func (t *trial) lister() driver.Lister {
	lister, ok := t.b.(driver.Lister)
	if !ok {
		t.Log("left out: this store does not list")
	}
	return lister
}

// list returns what is listed, by name.
func (t *trial) list(lister driver.Lister, pattern string) map[string]driver.State {
	t.Helper()
	listed := make(map[string]driver.State)
	for state, err := range lister.List(t.in(), pattern) {
		if err != nil {
			t.Fatalf("List %q: %v", pattern, err)
		}
		listed[state.Name] = state
	}
	return listed
}

func listShowsWhatIsHeld(t *trial) {
	lister := t.lister()
	if lister == nil {
		return
	}
	held, released, ended := request("list:held"), request("list:released"), request("list:ended")
	held.Purpose, held.TTL = "why", 100*t.span()
	ended.TTL = t.span()
	fence := t.acquire(t.a, held)
	t.acquire(t.a, released)
	t.release(t.a, released, driver.Mine)
	begin := time.Now()
	t.acquire(t.a, ended)
	t.endsAfter(begin, ended.TTL, "an ended lease is not listed", func() bool {
		t.Helper()
		_, listed := t.list(lister, "*")[ended.Name]
		return !listed
	})

	listed := t.list(lister, "*")
	if len(listed) != 1 {
		t.Fatalf("listed %v, want %q alone", listed, held.Name)
	}
	h := t.only(listed[held.Name])
	if h.Token != held.Token || h.Fence != fence || h.Purpose != held.Purpose || h.Left <= 0 {
		t.Errorf("listed %+v, want the holder of %+v with fence %d", h, held, fence)
	}
	for range lister.List(t.in(), "*") {
		break // a caller that has seen enough
	}
}

func listMatchesPatterns(t *trial) {
	lister := t.lister()
	if lister == nil {
		return
	}
	names := t.holdAll([]string{
		"job:a", "job:b", "job:ab", "job", "Job:a", "[x]", "x", `\x`, "a*b", "aXXb", "a?b", "aXb", "a%b", "a_b",
		"ü1", "u1", "{tag}job:a", "日本", "two words",
	})
	for pattern, want := range map[string][]string{
		"*":           names,
		"job:*":       {"job:a", "job:b", "job:ab"},
		"job*":        {"job", "job:a", "job:b", "job:ab"},
		"*job:a":      {"job:a", "{tag}job:a"},
		"job:?":       {"job:a", "job:b"},
		"?ob:a":       {"job:a", "Job:a"},
		"job:a":       {"job:a"},
		"[x]":         {"[x]"},
		`\x`:          {`\x`},
		`\*`:          {`\x`},
		"a*b":         {"a*b", "aXXb", "a?b", "aXb", "a%b", "a_b"},
		"a??b":        {"aXXb"},
		"a%b":         {"a%b"},
		"a_b":         {"a_b"},
		"?1":          {"ü1", "u1"},
		"??":          {"ü1", "u1", `\x`, "日本"},
		"{tag}*":      {"{tag}job:a"},
		"* *":         {"two words"},
		"*a*":         {"job:a", "job:ab", "Job:a", "a*b", "aXXb", "a?b", "aXb", "a%b", "a_b", "{tag}job:a"},
		"nobody's *x": nil,
		"":            nil,
	} {
		want = slices.DeleteFunc(slices.Clone(want), func(name string) bool { return !slices.Contains(names, name) })
		got := slices.Collect(maps.Keys(t.list(lister, pattern)))
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("List %q gave %q, want %q", pattern, got, want)
		}
	}
}

// holdAll acquires the names, and returns those that the store accepts.
func (t *trial) holdAll(names []string) []string {
	t.Helper()
	var held []string
	for _, name := range names {
		result, err := t.a.Acquire(t.in(), request(name))
		var refused *driver.NameError
		switch {
		case errors.As(err, &refused):
			t.Logf("this store refuses the name: %v", err)
		case err != nil || !result.Granted:
			t.Fatalf("Acquire %q: granted %v, %v", name, result.Granted, err)
		default:
			held = append(held, name)
		}
	}
	return held
}
