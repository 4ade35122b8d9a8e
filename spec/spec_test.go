package spec

import (
	"strings"
	"testing"
)

// variant is one search: a model, with what is dropped from it.
type variant struct {
	name    string // what is dropped; in words, as a part of a test's name
	model   string
	defines string // of the model's #ifdefs, separated by spaces
	// violated is the assertion that must be found violated; empty if all hold,
	// in every state that can be reached.
	violated string
}

// asBuilt are the models as the code is, within several bounds.
var asBuilt = []variant{
	{"two calls", "lock.pml", "", ""},
	{"three calls", "lock.pml", "CALLS=3 ASKS=1 NO_EXTEND", ""},
	{"fences", "lock.pml", "FENCES ASKS=1", ""},
	{"two runs", "once.pml", "", ""},
	{"three runs", "once.pml", "RUNS=3 ASKS=1", ""},
	{"one attempt", "once.pml", "MOST=1", ""},
	{"failed runs tried again", "once.pml", "RETRY_FAILED MOST=2", ""},
	{"two waiters", "handoff.pml", "", ""},
	{"a call behind the first", "handoff.pml", "SECOND_CALL UNANSWERED=0 CUTS=0 CANCELS=0", ""},
	{"a call behind the first, in time", "handoff.pml", "PROMPT SECOND_CALL CUTS=0 PATIENCE=0", ""},
	{"one dies", "handoff.pml", "PROMPT PROCESSES=3 UNANSWERED=0 CUTS=0 CANCELS=0 DEATHS=1 PATIENCE=4", ""},
	{"two die", "handoff.pml", "PROMPT PROCESSES=3 UNANSWERED=0 CUTS=0 CANCELS=0 DEATHS=2 PATIENCE=6", ""},
	{"inboxes are interrupted", "handoff.pml", "PROMPT PROCESSES=3 UNANSWERED=0 CANCELS=0 PATIENCE=0", ""},
	{"calls give up", "handoff.pml", "PROMPT PROCESSES=3 UNANSWERED=0 CUTS=0 GIVEN_UP=1 PATIENCE=0", ""},
	{"other programs", "handoff.pml", "PROMPT OTHERS UNANSWERED=0 CUTS=0 CANCELS=0 PATIENCE=1", ""},
	{"a tenure", "local.pml", "", ""},
	{"a quorum", "quorum.pml", "", ""},
	{"a quorum whose clocks are apart", "quorum.pml", "CLOCKS_DIFFER", ""},
	{"a quorum of which a node restarts empty", "quorum.pml", "RESTARTS", ""},
}

// enough are the rows that hold although something is dropped, or promise less
// than the whole: they show what exactly is needed.
var enough = []variant{
	{"fences when the store forgets", "lock.pml", "FENCES ASKS=1 STORE_FORGETS", ""},
	{"fences when the clock is set back", "lock.pml", "FENCES ASKS=1 CLOCK_SET_BACK", ""},
	{"fences when the clock is set back and a companion expires", "lock.pml",
		"FENCES ASKS=1 CLOCK_SET_BACK COMPANION_EXPIRES", ""},
	{"the record's fence alone protects the successor", "once.pml", "FINISH_WITHOUT_LEASE ONLY_SUCCESSORS", ""},
	{"the lease alone protects the successor", "once.pml", "FINISH_WITHOUT_RECORD", ""},
	{"a known loss ends the lease when the store forgets", "local.pml", "STORE_FORGETS", ""},
}

// dropped are the models without one assumption or rule.
var dropped = []variant{
	{"no margin", "lock.pml", "NO_MARGIN", "two_trusted"},
	{"the holder's clock stands still", "lock.pml", "HOLDERS_CLOCK_STOPS", "two_trusted"},
	{"the store forgets", "lock.pml", "STORE_FORGETS", "two_trusted"},
	{"the window counts from the answer", "lock.pml", "WINDOW_FROM_ANSWER", "two_trusted"},
	{"the deadline moves when the renewal is sent", "lock.pml", "DEADLINE_MOVED_WHEN_SENT", "two_trusted"},
	{"an unknown outcome is held", "lock.pml", "UNKNOWN_IS_HELD", "two_trusted"},
	{"a repeated acquire keeps the old expiry", "lock.pml", "REPEAT_KEEPS_EXPIRY", "two_trusted"},
	{"an extension may shorten", "lock.pml", "SHORTENS", "two_trusted"},
	{"release does not compare", "lock.pml", "BLIND_RELEASE CALLS=3 ASKS=1 NO_EXTEND", "two_trusted"},
	{"extend does not compare", "lock.pml", "BLIND_EXTEND", "not_the_owners"},
	{"a token is used again", "lock.pml", "TOKEN_REUSED CALLS=3 ASKS=1 NO_EXTEND", "two_trusted"},
	{"no tombstone", "lock.pml", "NO_TOMBSTONE", "left_locked"},
	{"a request outlives the tombstone", "lock.pml", "TOMBSTONE_ENDS", "left_locked"},
	{"the bare SET of WithoutFence", "lock.pml", "BARE_SET", "left_locked"},
	{"an unanswered acquire is not taken back", "lock.pml", "NOT_TAKEN_BACK", "left_locked"},
	{"a release is sent once", "lock.pml", "RELEASE_SENT_ONCE", "left_locked"},
	{"the fence is drawn before the grant", "lock.pml", "FENCES ASKS=1 FENCE_DRAWN_BEFORE", "fence_not_larger"},
	{"the fence is a counter, the store forgets", "lock.pml", "FENCES ASKS=1 FENCE_IS_COUNTER STORE_FORGETS", "fence_not_larger"},
	{"the fence is the clock, which is set back", "lock.pml", "FENCES ASKS=1 FENCE_IS_CLOCK CLOCK_SET_BACK", "fence_not_larger"},
	{"the clock is set back, the store forgets", "lock.pml", "FENCES ASKS=1 CLOCK_SET_BACK STORE_FORGETS", "fence_not_larger"},
	{"the companion lasts a day, wherever the clock is", "lock.pml",
		"FENCES ASKS=1 CLOCK_SET_BACK COMPANION_EXPIRES COMPANION_LASTS_A_DAY", "fence_not_larger"},

	{"a slot is not judged", "once.pml", "SLOT_NOT_JUDGED", "begun_when_done"},
	{"a slot is not judged, one attempt", "once.pml", "SLOT_NOT_JUDGED MOST=1 ONLY_WORK", "worked_twice"},
	{"leases overlap", "once.pml", "LEASES_OVERLAP", "two_at_work"},
	{"begin does not compare the lease", "once.pml", "BEGIN_WITHOUT_LEASE", "fence_not_larger"},
	{"finish compares nothing", "once.pml", "FINISH_COMPARES_NOTHING ONLY_SUCCESSORS", "marked_the_successors"},
	{"finish compares the record only", "once.pml", "FINISH_WITHOUT_LEASE", "marked_without_lease"},
	{"the job is released without comparing", "once.pml", "BLIND_RELEASE", "freed_the_successor"},
	{"the lease is compared by its token alone", "once.pml", "LEASE_BY_TOKEN", "marked_without_lease"},

	{"already yours keeps the claim's expiry", "handoff.pml",
		"SECOND_CALL UNANSWERED=0 CUTS=0 CANCELS=0 REPEAT_KEEPS_EXPIRY", "two_trusted"},
	{"a message is trusted", "handoff.pml", "SECOND_CALL UNANSWERED=0 CUTS=0 CANCELS=0 MESSAGE_IS_TRUSTED", "two_trusted"},
	{"a held token is handed on", "handoff.pml", "SECOND_CALL UNANSWERED=0 CUTS=0 CANCELS=0 HELD_IS_HANDED_ON", "two_trusted"},
	{"a token is expected once it has a place", "handoff.pml",
		"PROMPT SECOND_CALL CUTS=0 CANCELS=0 PATIENCE=9 EXPECTED_LATE", "two_trusted"},
	{"no tombstone for a waiter", "handoff.pml", "NO_TOMBSTONE", "left_locked"},
	{"the previous token is not compared", "handoff.pml",
		"PROMPT SECOND_CALL CUTS=0 PATIENCE=0 PREVIOUS_NOT_COMPARED", "two_trusted"},
	{"no fresh token for the call behind", "handoff.pml", "SECOND_CALL CUTS=0 CANCELS=0 TOKEN_KEPT", "left_locked"},
	{"not the previous token's, so nothing is done", "handoff.pml",
		"PROMPT SECOND_CALL CUTS=0 PATIENCE=0 SECOND_HALF_LEFT_OUT", "waits_too_long"},
	{"only the first has a timer", "handoff.pml",
		"PROMPT PROCESSES=3 UNANSWERED=0 CUTS=0 CANCELS=0 DEATHS=2 PATIENCE=6 FIRST_HAS_THE_TIMER", "waits_too_long"},
	{"a free name is left to the first", "handoff.pml",
		"PROMPT PROCESSES=3 UNANSWERED=0 CUTS=0 CANCELS=0 DEATHS=2 PATIENCE=6 NO_HELP_FOR_THE_QUEUE", "waits_too_long"},
	{"a dead waiter costs no more than a dead holder", "handoff.pml",
		"PROMPT PROCESSES=3 UNANSWERED=0 CUTS=0 CANCELS=0 DEATHS=1 PATIENCE=3", "waits_too_long"},
	{"a restored inbox does not ask", "handoff.pml",
		"PROMPT PROCESSES=3 UNANSWERED=0 CANCELS=0 PATIENCE=0 RESTORED_DOES_NOT_ASK", "waits_too_long"},
	{"what a call that has gone was given is kept", "handoff.pml",
		"PROMPT PROCESSES=3 UNANSWERED=0 CUTS=0 GIVEN_UP=1 PATIENCE=0 UNKNOWN_IS_KEPT", "waits_too_long"},
	{"no hint of an open release", "handoff.pml",
		"PROMPT OTHERS UNANSWERED=0 CUTS=0 CANCELS=0 PATIENCE=1 OPEN_WITHOUT_HINT", "waits_too_long"},

	{"a pass restarts the deadline", "local.pml", "PASS_RESTARTS_DEADLINE", "two_trusted"},
	{"passed on at any time", "local.pml", "PASSED_AT_ANY_TIME", "fence_not_larger"},
	{"the block of fences is not counted", "local.pml", "BLOCK_NOT_COUNTED", "fence_not_larger"},
	{"a pass keeps the fence", "local.pml", "SAME_FENCE", "fence_not_larger"},
	{"an old lease is released by its token", "local.pml", "OLD_RELEASE_BY_TOKEN", "two_trusted"},
	{"the renewal's window counts from the answer", "local.pml", "WINDOW_FROM_ANSWER", "two_trusted"},
	{"a renewal's answer after the release counts", "local.pml", "ANSWER_AFTER_RELEASE", "two_trusted"},
	{"a loss ends the lease that asked", "local.pml", "STORE_FORGETS LOSS_ENDS_THE_ASKER", "trusted_when_lost"},

	{"no node is told of the fence", "quorum.pml", "CLOCKS_DIFFER NOT_RAISED", "fence_not_larger"},
	{"a node that another holds takes the fence over", "quorum.pml", "CLOCKS_DIFFER RAISED_ANYWHERE", "fence_not_larger"},
	{"a node grants as soon as it has restarted", "quorum.pml", "RESTARTS NO_ABSTENTION", "two_trusted"},
	{"an empty node does not start from its clock", "quorum.pml", "RESTARTS NO_CLOCK", "fence_not_larger"},
}

func TestTheProtocolKeepsItsPromises(t *testing.T) { searchEach(t, asBuilt) }

func TestWhatIsEnoughIsEnough(t *testing.T) { searchEach(t, enough) }

// With -v it prints the violation of each as a timeline.
func TestEachAssumptionDroppedIsFoundOut(t *testing.T) { searchEach(t, dropped) }

func searchEach(t *testing.T, variants []variant) {
	needSpin(t)
	for _, v := range variants {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			found, err := search(t, v)
			switch {
			case err != nil:
				t.Fatal(err)
			case found.violated != v.violated:
				t.Fatalf("violated: %q, want %q, after %d states\n%s", found.violated, v.violated, found.states, found.timeline)
			case v.violated == "":
				t.Logf("holds in all of %d states", found.states)
			default:
				t.Logf("%s after %d steps, %d states\n%s", found.violated, found.steps, found.states, found.timeline)
			}
		})
	}
}

// What is never done can do no harm: without this, an assertion could hold
// because a guard is never true.
func TestEveryStepOfTheModelsIsTaken(t *testing.T) {
	needSpin(t)
	const line = "PROMPT PROCESSES=3 SECOND_CALL PATIENCE=6 "
	for model, searches := range map[string][]string{ // differ in numbers only
		"lock.pml": {""},
		"once.pml": {"MOST=1"},
		"handoff.pml": {
			line + "UNANSWERED=1 CUTS=0 CANCELS=0",
			line + "UNANSWERED=0 CUTS=1 CANCELS=0",
			line + "UNANSWERED=0 CUTS=0 CANCELS=1 GIVEN_UP=1",
			line + "UNANSWERED=0 CUTS=0 CANCELS=0 DEATHS=1",
		},
		"local.pml":  {"STORE_FORGETS"},
		"quorum.pml": {"RESTARTS"},
	} {
		t.Run(model, func(t *testing.T) {
			t.Parallel()
			unused := make(map[string]int) // in how many searches
			for _, defines := range searches {
				found, err := search(t, variant{model: model, defines: defines})
				if err != nil {
					t.Fatal(err)
				}
				for _, step := range found.unused {
					unused[step]++
				}
			}
			for step, n := range unused {
				if n == len(searches) {
					t.Error(step)
				}
			}
		})
	}
}

func TestASearchThatIsCutShortIsNoAnswer(t *testing.T) {
	needSpin(t)
	whole := variant{model: "lock.pml"}
	for name, limit := range map[string][]string{
		"depth":  {"-m20"},
		"memory": {"-m100000"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			memory := "512"
			if name == "memory" {
				memory = "1"
			}
			if err := build(t, dir, whole, memory); err != nil {
				t.Fatal(err)
			}
			if found, err := run(t, dir, whole, limit...); err == nil {
				t.Errorf("taken for an answer: %+v", found)
			} else if !strings.Contains(err.Error(), "cut short") {
				t.Error(err)
			}
		})
	}
}
