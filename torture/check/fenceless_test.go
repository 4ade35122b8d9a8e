package check_test

import (
	"slices"
	"testing"
	"time"

	"github.com/holdfastlock/holdfast/torture/check"
	"github.com/holdfastlock/holdfast/torture/history"
)

// never is the deadline of a lease that has none.
const never = 1_000_000

// fenceless are histories of libraries without fences, the kinds of violations
// that they show, and for how long two leases were trusted at once.
var fenceless = map[string]struct {
	story   story
	shows   []string
	overlap time.Duration
	losses  int // overlaps that are a documented loss
}{
	"holders after one another": {told(
		granted("w1", 1, 0, 2, 0, 1002), released("w1", 2, 1, 40, 42, history.OK), granted("w2", 1, 30, 45, 0, 1045),
	), nil, 0, 0},
	"two holders": {told(granted("w1", 1, 0, 2, 0, 1002), granted("w2", 1, 30, 990, 0, 1990)),
		[]string{check.Exclusion}, 12 * time.Millisecond, 0},
	"a holder that acts after it was frozen": {told(
		granted("w1", 1, 0, 2, 0, never), fault(1, "SIGSTOP", "w1", 100, 2000), granted("w2", 1, 50, 1005, 0, never),
		lost("w1", 1, 2003),
	), []string{check.Exclusion}, 3 * time.Millisecond, 0},
	"a holder that is frozen until it knows": {told(
		granted("w1", 1, 0, 2, 0, never), fault(1, "SIGSTOP", "w1", 100, 2000), granted("w2", 1, 50, 1005, 0, never),
		lost("w1", 1, 2000),
	), nil, 0, 0},
	"two holders after a loss": {told(
		granted("w1", 1, 0, 2, 0, never), fault(1, "FLUSHALL", "server", 50, 52), granted("w2", 1, 60, 62, 0, never),
		lost("w1", 1, 300),
	), nil, 0, 1},
}

func TestALibraryWithoutFencesIsJudgedByExclusionAlone(t *testing.T) {
	rules := storyRules()
	rules.Fenceless = true
	for name, c := range fenceless {
		t.Run(name, func(t *testing.T) {
			report := check.Check(c.story, rules)
			if got := kinds(report); !slices.Equal(got, c.shows) {
				t.Errorf("found violations of %q, want %q", got, c.shows)
			}
			for _, v := range report.Violations {
				if v.Overlap != c.overlap {
					t.Errorf("two leases were trusted for %v, want %v", v.Overlap, c.overlap)
				}
			}
			losses := 0
			for _, l := range report.Losses {
				losses += l.Overlaps
			}
			if losses != c.losses {
				t.Errorf("%d overlaps are a documented loss, want %d", losses, c.losses)
			}
		})
	}
}
