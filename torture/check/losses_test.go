package check_test

import (
	"slices"
	"testing"
	"time"

	"github.com/holdfastlock/holdfast/torture/check"
	"github.com/holdfastlock/holdfast/torture/history"
)

// losses are histories in which a server lost its data, what is counted, and
// the kinds of violations that they show all the same.
var losses = map[string]struct {
	story story
	row   check.Loss
	shows []string
}{
	"two holders": {told(
		granted("w1", 1, 0, 2, 41, 980), fault(1, "FLUSHALL", "server", 50, 52), granted("w2", 1, 60, 62, 42, 1040),
		fault(2, "FLUSHALL", "server", 1500, 1502),
	), check.Loss{Fault: "FLUSHALL", Times: 2, TwoHolders: 1, Overlaps: 1, Longest: 918 * time.Millisecond}, nil},
	"the answer to the older holder comes last": {told(
		fault(1, "FLUSHALL", "server", 50, 52), granted("w2", 1, 60, 62, 42, 1040), granted("w1", 1, 0, 70, 41, 980),
	), check.Loss{Fault: "FLUSHALL", Times: 1, TwoHolders: 1, Overlaps: 1, Longest: 910 * time.Millisecond}, nil},
	"two holders, both asked for before but only one lost": {told(
		ask("w2", 1, 0), fault(1, "FLUSHALL", "server", 50, 52), granted("w1", 1, 1200, 1202, 42, 2180),
		granted("w2", 1, 0, 1300, 43, 2280)[1:],
	), check.Loss{Fault: "FLUSHALL", Times: 1}, []string{check.Exclusion, check.Linearizability}},
	"two holders, the older of whom had asked before but was granted after": {told(
		granted("w1", 1, 0, 1202, 42, 2180), fault(1, "FLUSHALL", "server", 50, 52), granted("w2", 1, 1210, 1300, 43, 2280),
	), check.Loss{Fault: "FLUSHALL", Times: 1}, []string{check.Exclusion, check.Linearizability}},
	"a holder that is extended although another holds": {told(
		granted("w1", 1, 0, 2, 41, 980), fault(1, "FLUSHALL", "server", 50, 52), granted("w2", 1, 60, 62, 42, 1040),
		extended("w1", 1, 900, 1880), extended("w2", 1, 950, 1930),
	), check.Loss{Fault: "FLUSHALL", Times: 1}, []string{check.Exclusion}},
	"a lease that is confirmed although another holds": {told(
		granted("w1", 1, 0, 2, 41, 980), fault(1, "FLUSHALL", "server", 50, 0), granted("w2", 1, 60, 62, 42, 1040),
		confirmed("w1", 2, 1, 300, 302, 1280),
	), check.Loss{Fault: "FLUSHALL", Times: 1, TwoHolders: 1, Overlaps: 1, Longest: 978 * time.Millisecond}, []string{check.Confirm}},
	"a lease that is confirmed because it is back, and the other was lost": {told(
		granted("w1", 1, 0, 2, 41, 980), fault(1, "failover", "server", 50, 52), granted("w2", 1, 60, 62, 42, 1040),
		fault(2, "failover", "server", 200, 210), confirmed("w1", 2, 1, 300, 302, 1280),
	), check.Loss{Fault: "failover", Times: 2, TwoHolders: 1, Overlaps: 1, Longest: 978 * time.Millisecond}, nil},
	"two holders, across the promotion of a replica": {told(
		granted("w1", 1, 0, 2, 41, 980), fault(1, "failover", "server", 50, 300), promoted(1, "failover", 100), granted("w2", 1, 160, 162, 42, 1140),
	), check.Loss{Fault: "failover", Times: 1, TwoHolders: 1, Overlaps: 1, Longest: 818 * time.Millisecond}, nil},
	"two holders, before any replica was promoted": {told(
		granted("w1", 1, 0, 2, 41, 980), fault(1, "failover", "server", 50, 300), granted("w2", 1, 60, 62, 42, 1040), promoted(1, "failover", 100),
	), check.Loss{Fault: "failover", Times: 1}, []string{check.Exclusion, check.Linearizability}},
	"a lease that is passed on although another holds, with the next fence of its own": {told(
		granted("w1", 1, 0, 2, 41, 980), fault(1, "failover", "server", 50, 100), granted("w2", 1, 60, 62, 60, 1040),
		ask("w1", 2, 63), released("w1", 3, 1, 65, 66, history.OK), granted("w1", 2, 63, 67, 42, 980)[1:],
		released("w1", 4, 2, 68, 69, history.OK), released("w2", 2, 1, 70, 72, history.OK), granted("w3", 1, 73, 75, 61, 1040),
	), check.Loss{Fault: "failover", Times: 1, TwoHolders: 1, Overlaps: 2, Longest: 3 * time.Millisecond}, nil},
	"a grant with the next fence of its process, which another deadline tells from one that was passed on": {told(
		granted("w1", 1, 0, 2, 41, 980), fault(1, "FLUSHALL", "server", 50, 52), released("w1", 2, 1, 55, 57, history.LostLease),
		granted("w2", 1, 60, 62, 60, 1040), released("w2", 2, 1, 64, 65, history.OK), granted("w1", 3, 67, 69, 42, 1040),
	), check.Loss{Fault: "FLUSHALL", Times: 1}, []string{check.Fence, check.Linearizability}},
	"a fence that does not grow": {told(
		granted("w1", 1, 0, 2, 41, 980), fault(1, "FLUSHALL", "server", 50, 52), released("w1", 2, 1, 60, 62, history.LostLease),
		granted("w2", 1, 70, 72, 41, 1040),
	), check.Loss{Fault: "FLUSHALL", Times: 1}, []string{check.Fence, check.Linearizability}},
	"a fence that does not grow after the clock went back": {told(
		granted("w1", 1, 0, 2, 41, 980), fault(1, "clock back", "server", 50, 51), fault(2, "failover", "server", 52, 54),
		released("w1", 2, 1, 60, 62, history.LostLease), granted("w2", 1, 70, 72, 30, 1040),
	), check.Loss{Fault: "failover", Times: 1, FencesBack: 1}, nil},
	"a fence that does not grow, and a smaller one of a call at the same time": {told(
		granted("w1", 1, 0, 2, 41, 980), fault(1, "clock back", "server", 50, 51), fault(2, "failover", "server", 52, 54),
		released("w1", 2, 1, 60, 62, history.LostLease), granted("w3", 1, 72, 76, 29, 1040),
		released("w3", 2, 1, 78, 80, history.OK), granted("w2", 1, 70, 90, 30, 1040),
	), check.Loss{Fault: "failover", Times: 1, FencesBack: 1}, nil},
	"a lock that is back after its release": {told(
		granted("w1", 1, 0, 2, 41, 980), released("w1", 2, 1, 40, 42, history.OK), fault(1, "failover", "server", 50, 60),
		denied("w2", 1, 300, 302, history.Held), granted("w2", 2, 980, 1002, 42, 1980),
	), check.Loss{Fault: "failover", Times: 1}, nil},
	"a lease that was not lost": {told(
		granted("w1", 1, 0, 2, 41, 980), fault(1, "failover", "server", 50, 60), confirmed("w1", 2, 1, 300, 302, 1280),
		released("w1", 3, 1, 400, 402, history.OK),
	), check.Loss{Fault: "failover", Times: 1}, nil},
	"a slot that is done again": {told(
		ran("w1", 1, 0, 5, 100, 1, 41, history.OK), fault(1, "FLUSHALL", "server", 120, 122),
		ran("w2", 1, 150, 155, 200, 1, 42, history.OK),
	), check.Loss{Fault: "FLUSHALL", Times: 1, SlotsAgain: 1}, nil},
	"a stale write": {told(
		wrote("w2", 1, 0, 42, 0, 1, true), fault(1, "FLUSHALL", "server", 5, 7), wrote("w1", 1, 10, 41, 1, 2, true),
	), check.Loss{Fault: "FLUSHALL", Times: 1, StaleWrites: 1}, []string{check.StaleWrite}},
}

func TestDocumentedLossesAreCountedApart(t *testing.T) {
	for name, l := range losses {
		t.Run(name, func(t *testing.T) {
			report := check.Check(l.story, storyRules())
			if !slices.Equal(report.Losses, []check.Loss{l.row}) {
				t.Errorf("counted %+v, want %+v", report.Losses, l.row)
			}
			if got := kinds(report); !slices.Equal(got, l.shows) {
				t.Errorf("found violations of %q, want %q", got, l.shows)
			}
		})
	}
}

func TestWhatIsNotCheckedIsCounted(t *testing.T) {
	report := check.Check(losses["a fence that does not grow after the clock went back"].story, storyRules())
	if report.Ordering.Undecided != 1 {
		t.Errorf("%d pieces are said to be undecided, want 1", report.Ordering.Undecided)
	}
	rules := storyRules()
	rules.PieceLimit = 1 // porcupine has no time at all
	report = check.Check(stories["holders after one another"].story, rules)
	if report.Ordering.Undecided == 0 || len(report.Violations) > 0 {
		t.Errorf("without time %d pieces are undecided, with violations %v", report.Ordering.Undecided, report.Violations)
	}
}

// kinds returns the kinds of the violations, each once, in order.
func kinds(report check.Report) []string {
	var all []string
	for _, v := range report.Violations {
		all = append(all, v.Kind)
	}
	slices.Sort(all)
	return slices.Compact(all)
}
