package check_test

import (
	"slices"
	"testing"

	"github.com/holdfastlock/holdfast/torture/check"
	"github.com/holdfastlock/holdfast/torture/history"
)

// stories are histories and the kinds of violations that they show.
var stories = map[string]struct {
	story story
	shows []string
}{
	"holders after one another": {told(
		granted("w1", 1, 0, 2, 41, 980), released("w1", 2, 1, 100, 102, history.OK),
		granted("w2", 1, 50, 103, 42, 1080), released("w2", 2, 1, 200, 202, history.OK),
	), nil},
	"a holder whose lease was extended, and one who waited for its release": {told(
		granted("w1", 1, 0, 2, 41, 980), extended("w1", 1, 330, 1300), confirmed("w1", 2, 1, 700, 702, 1680),
		released("w1", 3, 1, 1500, 1502, history.OK), granted("w2", 1, 50, 1503, 42, 2480),
	), nil},
	"a holder that was frozen, and one that took over": {told(
		granted("w1", 1, 0, 2, 41, 980), fault(1, "SIGSTOP", "w1", 100, 2000),
		granted("w2", 1, 50, 1005, 42, 1980), lost("w1", 1, 2001), released("w1", 2, 1, 2002, 2004, history.LostLease),
	), nil},
	"a holder that was killed, and one that took over": {told(
		granted("w1", 1, 0, 2, 41, 980), fault(1, check.Kill, "w1", 100, 0), granted("w2", 1, 50, 1005, 42, 1980),
	), nil},
	"a lock that is granted although its holder, who is dead, has time left": {told(
		granted("w1", 1, 0, 2, 41, 980), fault(1, check.Kill, "w1", 100, 0), granted("w2", 1, 50, 200, 42, 1180),
	), []string{check.Linearizability}},
	"two holders at once": {told(
		granted("w1", 1, 0, 2, 41, 980), granted("w2", 1, 50, 100, 42, 1080),
	), []string{check.Exclusion, check.Linearizability}},
	"two holders at once, because an extension was believed": {told(
		granted("w1", 1, 0, 2, 41, 980), extended("w1", 1, 330, 1300), granted("w2", 1, 50, 1100, 42, 2080),
	), []string{check.Exclusion, check.Linearizability}},
	"two holders, the first of which was told of its loss": {told(
		granted("w1", 1, 0, 2, 41, 980), lost("w1", 1, 90), granted("w2", 1, 50, 100, 42, 1080),
	), []string{check.Linearizability}},
	"a late release that frees the successor": {told(
		granted("w1", 1, 0, 2, 41, 980), released("w1", 2, 1, 1005, 1009, history.LostLease),
		granted("w2", 1, 50, 1003, 42, 1980), granted("w3", 1, 50, 1010, 43, 1990),
	), []string{check.Exclusion, check.Linearizability}},
	"a lock with a delay that is taken over after it": {told(
		delayed(granted("w1", 1, 0, 2, 41, 980), 500), fault(1, "SIGSTOP", "w1", 100, 2000),
		denied("w3", 1, 1400, 1402, history.Held), granted("w2", 1, 50, 1485, 42, 2460),
	), nil},
	"a lock with a delay that is taken over within it": {told(
		delayed(granted("w1", 1, 0, 2, 41, 980), 500), fault(1, "SIGSTOP", "w1", 100, 2000), granted("w2", 1, 50, 1400, 42, 2370),
	), []string{check.Linearizability}},
	"a lock with a delay of one that is dead, taken over within it": {told(
		delayed(granted("w1", 1, 0, 2, 41, 980), 500), fault(1, check.Kill, "w1", 100, 0), granted("w2", 1, 50, 1400, 42, 2370),
	), []string{check.Linearizability}},
	"a lock with a delay that was extended, taken over within it": {told(
		delayed(granted("w1", 1, 0, 2, 41, 980), 500), extended("w1", 1, 330, 1300), granted("w2", 1, 50, 1700, 42, 2670),
	), []string{check.Linearizability}},
	"a lock with a delay that is released": {told(
		delayed(granted("w1", 1, 0, 2, 41, 980), 500), released("w1", 2, 1, 100, 102, history.OK), granted("w2", 1, 50, 103, 42, 1080),
	), nil},
	"a lock with a delay that is released after its end": {told(
		delayed(granted("w1", 1, 0, 2, 41, 980), 500), lost("w1", 1, 981), released("w1", 2, 1, 1000, 1002, history.LostLease),
		granted("w2", 1, 50, 1003, 42, 1980),
	), nil},
	"a lease that is confirmed after its end": {told(
		granted("w1", 1, 0, 2, 41, 980), confirmed("w1", 2, 1, 985, 987, 980),
	), []string{check.Confirm}},
	"held, although the lock was free": {told(
		granted("w1", 1, 0, 2, 41, 980), released("w1", 2, 1, 100, 102, history.OK), denied("w2", 1, 200, 202, history.Held),
	), []string{check.Linearizability}},
	"held, while another held": {told(
		granted("w1", 1, 0, 2, 41, 980), denied("w2", 1, 50, 52, history.Held), released("w1", 2, 1, 100, 102, history.OK),
	), nil},
	"held, although the holder no longer believes it": {told(
		granted("w1", 1, 0, 2, 41, 980), denied("w2", 1, 1500, 1502, history.Held),
	), nil},
	"held, because an acquire without an answer may hold": {told(
		granted("w1", 1, 0, 2, 41, 980), released("w1", 2, 1, 100, 102, history.OK),
		denied("w3", 1, 150, 160, history.Unreachable), denied("w2", 1, 200, 202, history.Held),
	), nil},
	"held, because an acquire that was told held under a fault may hold": {told(
		granted("w1", 1, 0, 2, 41, 980), fault(1, "reply lost", "proxy", 40, 90), denied("w3", 1, 50, 60, history.Held),
		released("w1", 2, 1, 100, 102, history.OK), denied("w2", 1, 300, 302, history.Held),
	), nil},
	"held, because another call of the process was told so": {told(
		granted("w1", 1, 0, 2, 41, 980), denied("w2", 1, 50, 120, history.Held), denied("w2", 2, 103, 110, history.Held),
		released("w1", 2, 1, 100, 102, history.OK),
	), nil},
	"held, long after an acquire without an answer": {told(
		granted("w1", 1, 0, 2, 41, 980), released("w1", 2, 1, 100, 102, history.OK),
		denied("w3", 1, 150, 160, history.Unreachable), denied("w2", 1, 1300, 1302, history.Held),
	), []string{check.Linearizability}},
	"an extension of a lease that another has taken over": {told(
		granted("w1", 1, 0, 2, 41, 980), granted("w2", 1, 50, 1005, 42, 1980), confirmed("w1", 2, 1, 1100, 1102, 1000),
	), []string{check.Confirm, check.Linearizability}},
	"a fence that is repeated": {told(
		granted("w1", 1, 0, 2, 41, 980), released("w1", 2, 1, 100, 102, history.OK), granted("w2", 1, 103, 105, 41, 1080),
	), []string{check.Fence, check.Linearizability}},
	"a fence that is given to two that asked together": {told(
		granted("w1", 1, 0, 2, 41, 980), released("w1", 2, 1, 100, 102, history.OK), granted("w2", 1, 1, 105, 41, 1080),
	), []string{check.Fence, check.Linearizability}},
	"a fence that is smaller": {told(
		granted("w1", 1, 0, 2, 41, 980), released("w1", 2, 1, 100, 102, history.OK), granted("w2", 1, 103, 105, 40, 1080),
	), []string{check.Fence, check.Linearizability}},
	"a fence that is smaller than one that was answered early": {told(
		granted("w1", 1, 0, 10, 45, 980), released("w1", 2, 1, 12, 14, history.OK), granted("w2", 1, 5, 20, 42, 980),
		released("w2", 2, 1, 22, 24, history.OK), granted("w3", 1, 25, 30, 44, 980),
	), []string{check.Fence, check.Linearizability}},
	"a lease without a fence": {granted("w1", 1, 0, 2, 0, 980), []string{check.Fence, check.Linearizability}},
	"guarded writes, each from the version before": {told(
		wrote("w1", 1, 0, 41, 0, 1, true), wrote("w2", 1, 10, 42, 1, 2, true),
	), nil},
	"a guarded write that is overwritten unread": {told(
		wrote("w1", 1, 0, 41, 0, 1, true), wrote("w2", 1, 10, 42, 0, 2, true),
	), []string{check.LostUpdate}},
	"an unguarded write that is overwritten unread": {told(
		wrote("w1", 1, 0, 41, 0, 1, false), wrote("w2", 1, 10, 42, 0, 2, false),
	), nil},
	"a guarded write with an old fence": {told(
		wrote("w2", 1, 0, 42, 0, 1, true), wrote("w1", 1, 10, 41, 1, 2, true),
	), []string{check.StaleWrite}},
	"a write that was acknowledged and is nowhere": {
		slices.DeleteFunc(wrote("w1", 1, 0, 41, 0, 1, true), func(e history.Event) bool { return e.Kind == history.Accepted }),
		[]string{check.MissingWrite},
	},
	"versions with a gap": {wrote("w1", 1, 0, 41, 0, 2, true), []string{check.Malformed}},
	"a slot that was tried again after a crash": {told(
		ran("w1", 1, 0, 5, 400, 1, 41, history.LostLease), ran("w2", 1, 50, 1005, 1200, 2, 42, history.OK),
	), nil},
	"a slot that was done twice": {told(
		ran("w1", 1, 0, 5, 100, 1, 41, history.OK), ran("w2", 1, 150, 155, 200, 2, 42, history.OK),
	), []string{check.Slot}},
	"a slot that an attempt marked done after it was taken over": {told(
		ran("w1", 1, 0, 5, 1300, 1, 41, history.OK), ran("w2", 1, 150, 1105, 1500, 2, 42, history.LostLease),
	), []string{check.Slot}},
	"attempts with the same number": {told(
		ran("w1", 1, 0, 5, 100, 1, 41, history.LostLease), ran("w2", 1, 150, 155, 200, 1, 42, history.OK),
	), []string{check.Slot}},
	"a first attempt that was asked for after the second had begun": {told(
		ran("w1", 1, 0, 5, 100, 2, 41, history.LostLease), ran("w2", 1, 150, 155, 200, 1, 42, history.LostLease),
	), []string{check.Slot}},
	"a name that stays free although it is wanted": {told(
		granted("w1", 1, 0, 2, 41, 980), released("w1", 2, 1, 100, 102, history.OK), granted("w2", 1, 50, 3200, 42, 4180),
	), []string{check.Progress}},
	"a name that stays free until the end": {told(
		granted("w1", 1, 0, 2, 41, 980), released("w1", 2, 1, 100, 102, history.OK), ask("w2", 1, 50), wrote("w3", 1, 3300, 41, 0, 1, true),
	), []string{check.Progress}},
	"a name that stays free while a server is down": {told(
		granted("w1", 1, 0, 2, 41, 980), released("w1", 2, 1, 100, 102, history.OK),
		fault(1, "restart", "server", 200, 5000), granted("w2", 1, 50, 5200, 42, 6180),
	), nil},
	"a name that is wanted only by a frozen client": {told(
		granted("w1", 1, 0, 2, 41, 980), released("w1", 2, 1, 100, 102, history.OK),
		fault(1, "SIGSTOP", "w2", 110, 4000), granted("w2", 1, 50, 4200, 42, 5180),
	), nil},
	"a name that stays free while the client that wants it has its own trouble": {told(
		granted("w1", 1, 0, 2, 41, 980), released("w1", 2, 1, 100, 102, history.OK),
		fault(1, "delay", "w2", 2000, 2100), granted("w2", 1, 50, 4500, 42, 5480),
	), nil},
	"a name that was wanted by a client that is dead": {told(
		granted("w1", 1, 0, 2, 41, 980), released("w1", 2, 1, 100, 102, history.OK),
		ask("w2", 1, 50), fault(1, check.Kill, "w2", 110, 0), granted("w3", 1, 4000, 4002, 42, 4980),
	), nil},
	"something that was left": {
		story{event(0, history.Left, "nemesis", 0, history.Event{Name: "lock:a", Note: "held by nobody"})},
		[]string{check.LeftBehind},
	},
	"a call that is made twice": {append(ask("w1", 1, 0), ask("w1", 1, 1)...), []string{check.Malformed}},
	"an answer that comes twice": {append(denied("w1", 1, 0, 2, history.Held), denied("w1", 1, 0, 3, history.Held)[1:]...),
		[]string{check.Malformed}},
	"an answer to nothing": {released("w1", 1, 1, 0, 2, history.OK)[1:], []string{check.Malformed}},
}

func TestEachStoryShowsItsViolationsAndNoOthers(t *testing.T) {
	for name, s := range stories {
		t.Run(name, func(t *testing.T) {
			report := check.Check(s.story, storyRules())
			for _, v := range report.Violations {
				t.Logf("%s of %s from %d to %d by %v: %s", v.Kind, v.Name, v.From/ms, v.To/ms, v.Processes, v.Text)
			}
			want := slices.Sorted(slices.Values(s.shows))
			if got := kinds(report); !slices.Equal(got, want) {
				t.Errorf("found violations of %q, want %q", got, want)
			}
			if report.Ordering.Undecided > 0 {
				t.Errorf("%d pieces were not decided", report.Ordering.Undecided)
			}
		})
	}
}
