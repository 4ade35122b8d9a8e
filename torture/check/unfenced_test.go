package check_test

import (
	"slices"
	"testing"

	"github.com/holdfastlock/holdfast/torture/check"
	"github.com/holdfastlock/holdfast/torture/history"
)

// unfencedStories are histories of leases that were asked for without a fence, and
// the kinds of violations that they show.
var unfencedStories = map[string]struct {
	story story
	shows []string
}{
	"holders after one another": {told(
		granted("w1", 1, 0, 2, 0, 980), released("w1", 2, 1, 100, 102, history.OK),
		granted("w2", 1, 50, 103, 0, 1080), confirmed("w2", 2, 1, 150, 152, 1130), released("w2", 3, 1, 200, 202, history.OK),
	), nil},
	"two holders at once": {told(
		granted("w1", 1, 0, 2, 0, 980), granted("w2", 1, 50, 100, 0, 1080),
	), []string{check.Exclusion, check.Linearizability}},
	"two holders at once, because an extension was believed": {told(
		granted("w1", 1, 0, 2, 0, 980), extended("w1", 1, 330, 1300), granted("w2", 1, 50, 1100, 0, 2080),
	), []string{check.Exclusion, check.Linearizability}},
	"two holders after a loss, of whom nobody knows which was first": {told(
		granted("w2", 1, 20, 60, 0, 1000), granted("w1", 1, 0, 70, 0, 980), fault(1, "FLUSHALL", "server", 10, 12),
	), nil},
	"a holder that is extended long after a loss": {told(
		granted("w1", 1, 0, 2, 0, 980), fault(1, "FLUSHALL", "server", 50, 52), granted("w2", 1, 60, 62, 0, 1040),
		extended("w1", 1, 900, 1880), extended("w2", 1, 950, 1930),
	), []string{check.Exclusion}},
	"a name that is granted although its holder, who is dead, has time left": {told(
		granted("w1", 1, 0, 2, 0, 980), fault(1, check.Kill, "w1", 100, 0), granted("w2", 1, 50, 200, 0, 1180),
	), []string{check.Linearizability}},
	"held, although the name was free": {told(
		granted("w1", 1, 0, 2, 0, 980), released("w1", 2, 1, 100, 102, history.OK), denied("w2", 1, 200, 202, history.Held),
	), []string{check.Linearizability}},
	"a grant that was heard of when it was over, before another's or after": {told(
		granted("w1", 1, 0, 1300, 0, 990), fault(1, "SIGSTOP", "w1", 5, 1300),
		granted("w2", 1, 1050, 1052, 0, 2030), released("w2", 2, 1, 1400, 1402, history.OK),
		granted("w3", 1, 1403, 1405, 0, 2380),
	), nil},
	"a grant whose call began before another's lease": {told(
		granted("w2", 1, 10, 12, 0, 990), released("w2", 2, 1, 100, 102, history.OK),
		granted("w1", 1, 5, 110, 0, 1080), released("w1", 2, 1, 200, 202, history.OK),
	), nil},
}

func TestALeaseWithoutAFenceExcludesOthersAllTheSame(t *testing.T) {
	for name, s := range unfencedStories {
		t.Run(name, func(t *testing.T) {
			report := check.Check(unfenced(s.story), storyRules())
			if got := kinds(report); !slices.Equal(got, s.shows) {
				t.Errorf("found violations of %q, want %q", got, s.shows)
			}
			if report.Unfenced != report.Tenures || report.Ordering.Undecided > 0 {
				t.Errorf("%d leases of %d count as without a fence, %d pieces are undecided",
					report.Unfenced, report.Tenures, report.Ordering.Undecided)
			}
		})
	}
}

func TestAStoreThatIsWrongOnceIsFoundOutWithoutFences(t *testing.T) {
	for wrong, by := range bugs {
		if !slices.Contains([]bug{grantsTwice, freesAnother, refusesFree, sticks}, wrong) {
			continue
		}
		t.Run(string(wrong), func(t *testing.T) {
			found := 0
			for seed := range uint64(20) {
				s := newSimulation(seed)
				s.bug, s.patient, s.unfenced = wrong, int(seed%3), true
				report := check.Check(s.run(4, 1500), simRules())
				for _, kind := range kinds(report) {
					if !s.bugged {
						t.Errorf("seed %d: found %v, but nothing was wrong", seed, report.Violations)
					}
					if slices.Contains(by, kind) {
						found++
					}
				}
			}
			if found == 0 {
				t.Error("it was not found")
			}
		})
	}
}
