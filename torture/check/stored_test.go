package check_test

import (
	"slices"
	"testing"

	"github.com/holdfastlock/holdfast/torture/check"
	"github.com/holdfastlock/holdfast/torture/history"
)

// gone is a write that was acknowledged and is not there.
func gone(name string, at int64) story {
	s := wrote("w1", 1, at, 41, 0, 1, true)
	return story{named(s[0], name), named(s[2], name)}
}

func named(e history.Event, name string) history.Event {
	e.Name = name
	return e
}

func TestAWriteIsExcusedOnlyByALossOfTheStoreThatItWasIn(t *testing.T) {
	rules := storyRules()
	rules.InStore, rules.Forgets = "sql/", []string{"failover"}
	for name, c := range map[string]struct {
		story story
		gone  int
		shows []string
	}{
		"in the store, with a loss":                {told(gone("sql/guard/x", 10), fault(1, "failover", "server", 11, 20)), 1, nil},
		"in the store, before a loss":              {told(gone("sql/guard/x", 10), fault(1, "failover", "server", 13, 20)), 0, []string{check.MissingWrite}},
		"in the store, without a loss":             {told(gone("sql/guard/x", 10), fault(1, "SIGSTOP", "server", 11, 20)), 0, []string{check.MissingWrite}},
		"in the store, with a loss of leases only": {told(gone("sql/guard/x", 10), fault(1, "FLUSHALL", "server", 11, 20)), 0, []string{check.MissingWrite}},
		"elsewhere, with a loss":                   {told(gone("guarded/x", 10), fault(1, "failover", "server", 11, 20)), 0, []string{check.MissingWrite}},
	} {
		t.Run(name, func(t *testing.T) {
			report := check.Check(c.story, rules)
			counted := 0
			for _, loss := range report.Losses {
				counted += loss.WritesGone
			}
			if got := kinds(report); counted != c.gone || !slices.Equal(got, c.shows) {
				t.Errorf("%d gone, violations of %q, want %d, %q", counted, got, c.gone, c.shows)
			}
		})
	}
}
