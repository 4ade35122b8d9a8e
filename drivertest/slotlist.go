package drivertest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/holdfastlock/holdfast/driver"
)

// runs lists the job's runs.
func (t *slotTrial) runs(job string, limit int) []driver.Run {
	t.Helper()
	runs, err := t.b.Runs(t.in(), job, limit)
	if err != nil {
		t.Fatalf("Runs: %v", err)
	}
	return runs
}

func runsAreListedLastFirst(t *slotTrial) {
	if runs := t.runs("job", 10); len(runs) != 0 {
		t.Fatalf("nobody has run it: %+v", runs)
	}
	r := t.runner("job", whole)
	var before time.Time
	for _, slot := range []string{"first", "second", "third", "crashed"} {
		t.eventually("the store's clock moves on", func() bool { _, now := t.run("job", ""); return now.After(before) })
		before = t.begin(r.begin(slot), driver.Begun).Began
		if slot != "crashed" {
			t.finish(r.finish(slot), driver.Mine)
		}
	}
	t.crash(r)
	again := t.runner("job", whole)
	t.eventually("the store's clock moves on", func() bool { _, now := t.run("job", ""); return now.After(before) })
	retried := again.begin("first")
	t.begin(retried, driver.Ended) // what is only asked for stays where it is
	t.begin(again.begin("crashed"), driver.Begun)

	runs := t.runs("job", 10)
	if len(runs) != 4 {
		t.Fatalf("%d runs, want 4: %+v", len(runs), runs)
	}
	for i, slot := range []string{"crashed", "third", "second", "first"} {
		known, _ := t.run("job", slot)
		runs[i].Left, known.Left = min(runs[i].Left, 1), min(known.Left, 1) // it runs down
		if runs[i] != known {
			t.Errorf("run %d is %+v, want %+v", i, runs[i], known)
		}
	}
	if runs := t.runs("job", 2); len(runs) != 2 || runs[0].Slot != "crashed" || runs[1].Slot != "third" {
		t.Errorf("the last two are %+v", runs)
	}
	if runs := t.runs("job", 0); len(runs) != 0 {
		t.Errorf("none asked for, got %+v", runs)
	}
	if runs := t.runs("another", 10); len(runs) != 0 {
		t.Errorf("runs of another job: %+v", runs)
	}
}

// theListIsBounded: the last runs are listed, those before are still known to
// be done.
func theListIsBounded(t *slotTrial) {
	const runs = driver.MaxRuns + 5
	r := t.runner("job", whole)
	for i := range runs {
		slot := fmt.Sprint(i)
		t.begin(r.begin(slot), driver.Begun)
		t.finish(r.finish(slot), driver.Mine)
	}
	if listed := t.runs("job", 10*runs); len(listed) != driver.MaxRuns {
		t.Errorf("%d runs are listed, want %d", len(listed), driver.MaxRuns)
	}
	t.is("job", "0", driver.Done, r, 1)
}

// aDoneSlotIsKeptAWhile: not for ever, and not shorter than asked for.
func aDoneSlotIsKeptAWhile(t *slotTrial) {
	r := t.runner("job", 3*driver.RunningKeep)
	short, long := r.finish("short"), r.finish("long")
	short.Keep, long.Keep = t.span(), 10*driver.RunningKeep
	t.begin(r.begin("short"), driver.Begun)
	t.begin(r.begin("long"), driver.Begun)
	t.finish(long, driver.Mine)
	begin := time.Now()
	t.finish(short, driver.Mine)
	t.endsAfter(begin, short.Keep, "the slot is forgotten", func() bool {
		t.Helper()
		run, _ := t.run("job", "short")
		return run.Phase == 0
	})
	t.is("job", "long", driver.Done, r, 1)
	if runs := t.runs("job", 10); len(runs) != 1 || runs[0].Slot != "long" {
		t.Errorf("listed: %+v", runs)
	}
}

func slotsSurviveARestart(t *slotTrial) {
	if t.Restart == nil {
		t.Log("left out: this backend can't be restarted")
		return
	}
	r := t.runner("job", whole)
	t.begin(r.begin("done"), driver.Begun)
	t.finish(r.finish("done"), driver.Mine)
	t.begin(r.begin("running"), driver.Begun)
	t.Restart(t.T)
	t.a = t.Open(t.T).(driver.SlotKeeper)
	t.b = t.a
	t.is("job", "done", driver.Done, r, 1)
	if run, _ := t.run("job", "running"); run.Phase != driver.Running || run.Token != r.Token {
		t.Errorf("after a restart the run is %+v", run)
	}
	if runs := t.runs("job", 10); len(runs) != 2 {
		t.Errorf("after a restart the runs are %+v", runs)
	}
}

// jobsAndSlots are such as a store might confuse.
var jobsAndSlots = [][2]string{
	{"job", "a"}, {"job", "A"}, {"job", "a "}, {"job", "~"}, {"job", "a:b"}, {"job", "日本"}, {"job", "}"}, {"job", "{x}"},
	{"job", "2026-11-29T02:00:00Z"}, {"job", strings.Repeat("s", driver.MaxSlot)}, {"job:a", "b"}, {"job:a:b", "c"}, {"job:a", "b:c"},
	{"{t}job", "a:b"}, {"{t}job:a", "b"}, {"{t}other", "a"}, {"other{t}", "a"}, {"other", "%"}, {"other", "_"}, {"other", "*"},
}

func slotsAreKeptApart(t *slotTrial) {
	runners := make(map[string]runner)
	for i, at := range jobsAndSlots {
		job, slot := at[0], at[1]
		if len(t.acceptable(job)) == 0 {
			t.Logf("this store refuses the name %q", job)
			continue
		}
		r, held := runners[job]
		if !held {
			r = t.runner(job, whole)
			runners[job] = r
		}
		t.begin(r.begin(slot), driver.Begun)
		if run, _ := t.run(job, slot); run.Phase != driver.Running {
			t.Fatalf("job %q, slot %q is %v", job, slot, run.Phase)
		}
		done := r.finish(slot)
		done.Code = i
		t.finish(done, driver.Mine)
	}
	for i, at := range jobsAndSlots {
		if r, held := runners[at[0]]; held {
			if run := t.is(at[0], at[1], driver.Done, r, 1); run.Code != i {
				t.Errorf("job %q, slot %q has code %d, want %d", at[0], at[1], run.Code, i)
			}
		}
	}
}

func badSlotsAreRefused(t *slotTrial) {
	r := t.runner("job", whole)
	for _, slot := range []string{"a\nb", "a\x00", "\xff", strings.Repeat("s", driver.MaxSlot+1), ""} {
		for op, err := range t.tryAll(t.in(), r, slot) {
			if !errors.Is(err, driver.ErrMisconfigured) && (op != "InspectSlot" || slot != "") {
				t.Errorf("%s of slot %q: %v", op, slot, err)
			}
		}
	}
	for _, name := range badNames {
		r.Name = name
		for _, err := range t.tryAll(t.in(), r, "slot") {
			t.nameError(err, name)
		}
		_, err := t.a.Runs(t.in(), name, 1)
		t.nameError(err, name)
	}
	if runs := t.runs("job", 10); len(runs) != 0 {
		t.Errorf("a refused slot was written: %+v", runs)
	}
}

// tryAll tries everything with a slot.
func (t *slotTrial) tryAll(ctx context.Context, r runner, slot string) map[string]error {
	_, _, inspect := t.a.InspectSlot(ctx, r.Name, slot)
	_, begin := t.a.BeginSlot(ctx, r.begin(slot))
	_, finish := t.a.FinishSlot(ctx, r.finish(slot))
	return map[string]error{"InspectSlot": inspect, "BeginSlot": begin, "FinishSlot": finish}
}

func anEndedContextBeginsNothing(t *slotTrial) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	r := t.runner("job", whole)
	for op, err := range t.tryAll(ended, r, "one") {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s under an ended context: %v", op, err)
		}
	}
	if _, err := t.a.Runs(ended, "job", 1); !errors.Is(err, context.Canceled) {
		t.Errorf("Runs under an ended context: %v", err)
	}
	if run, _ := t.run("job", "one"); run.Phase != 0 {
		t.Errorf("an ended context began it: %+v", run)
	}
}

func oneOfManyBegins(t *slotTrial) {
	// All use the token of one runner, so that only BeginSlot can tell them
	// apart: every answer must be the same run.
	r := t.runner("job", whole)
	runs := make([]driver.Run, 16)
	t.together(len(runs), func(i int, _ driver.Store) {
		result, err := t.b.BeginSlot(t.in(), r.begin("one"))
		if err != nil || result.Verdict != driver.Begun {
			t.Errorf("BeginSlot: %v, %v", result.Verdict, err)
		}
		result.Run.Left = 0
		runs[i] = result.Run
	})
	for _, run := range runs {
		if run != runs[0] || run.Attempt != 1 {
			t.Errorf("begun as %+v and as %+v", run, runs[0])
		}
	}
}
