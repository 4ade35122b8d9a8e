package drivertest

import (
	"time"

	"github.com/holdfastlock/holdfast/driver"
)

// forSlots returns the part that is run where the store keeps slots, and says
// so where it does not.
func forSlots(check func(t *slotTrial)) func(t *trial) {
	return func(t *trial) {
		a, ok := t.a.(driver.SlotKeeper)
		if !ok {
			t.Log("left out: this store keeps no slots")
			return
		}
		check(&slotTrial{trial: t, a: a, b: t.b.(driver.SlotKeeper)})
	}
}

// slotTrial is a trial with two handles onto one store that keeps slots.
type slotTrial struct {
	*trial
	a, b driver.SlotKeeper
}

// runner is a lease on a job, and its fence.
type runner struct {
	driver.AcquireRequest
	fence int64
}

// runner acquires the job.
func (t *slotTrial) runner(job string, ttl time.Duration) runner {
	t.Helper()
	req := request(job)
	req.TTL = ttl
	return runner{req, t.acquire(t.trial.a, req)}
}

// crash frees the job as the end of a lease does, without waiting for it.
func (t *slotTrial) crash(r runner) {
	t.Helper()
	t.release(t.trial.a, r.AcquireRequest, driver.Mine)
}

func (r runner) begin(slot string) driver.BeginRequest {
	return driver.BeginRequest{Job: r.Name, Slot: slot, Token: r.Token, Fence: r.fence}
}

func (r runner) finish(slot string) driver.FinishRequest {
	return driver.FinishRequest{Job: r.Name, Slot: slot, Token: r.Token, Fence: r.fence, Keep: time.Hour}
}

// begin must be answered with the verdict; it returns the run.
func (t *slotTrial) begin(req driver.BeginRequest, want driver.Verdict) driver.Run {
	t.Helper()
	result, err := t.b.BeginSlot(t.in(), req)
	if err != nil {
		t.Fatalf("BeginSlot %q: %v", req.Slot, err)
	}
	if result.Verdict != want {
		t.Fatalf("BeginSlot %q: verdict %d, want %d, %+v", req.Slot, result.Verdict, want, result.Run)
	}
	return result.Run
}

func (t *slotTrial) finish(req driver.FinishRequest, want driver.Answer) {
	t.Helper()
	answer, err := t.a.FinishSlot(t.in(), req)
	if err != nil || answer != want {
		t.Fatalf("FinishSlot %q answered %v, %v, want %v", req.Slot, answer, err, want)
	}
}

// run returns what is known of a slot, and the store's time.
func (t *slotTrial) run(job, slot string) (driver.Run, time.Time) {
	t.Helper()
	run, now, err := t.b.InspectSlot(t.in(), job, slot)
	if err != nil {
		t.Fatalf("InspectSlot %q: %v", slot, err)
	}
	return run, now
}

// is checks that the slot is known as the attempt of this runner.
func (t *slotTrial) is(job, slot string, phase driver.Phase, by runner, attempt int) driver.Run {
	t.Helper()
	run, _ := t.run(job, slot)
	if run.Slot != slot || run.Phase != phase || run.Token != by.Token || run.Fence != by.fence || run.Attempt != attempt {
		t.Fatalf("%v, want %v by %s with fence %d, attempt %d: %+v", run.Phase, phase, by.Token, by.fence, attempt, run)
	}
	if alive := run.Left > 0; alive != (phase == driver.Running) {
		t.Fatalf("%v, and the runner's lease lasts %v", phase, run.Left)
	}
	return run
}

func aSlotRunsOnce(t *slotTrial) {
	if run, _ := t.run("job", "one"); run.Phase != 0 || run.Slot != "one" {
		t.Fatalf("nobody has begun it: %+v", run)
	}
	first := t.runner("job", whole)
	t.begin(first.begin("one"), driver.Begun)
	run := t.is("job", "one", driver.Running, first, 1)
	_, now := t.run("job", "")
	if !run.Ended.IsZero() || run.Began.After(now) || now.Sub(run.Began) > patience || run.Left > whole {
		t.Errorf("begun at %v, ended at %v, left %v, and it is %v", run.Began, run.Ended, run.Left, now)
	}
	if run.Began.Location() != time.UTC || now.Location() != time.UTC {
		t.Errorf("%v, %v: not in UTC", run.Began, now)
	}

	t.finish(first.finish("one"), driver.Mine)
	run = t.is("job", "one", driver.Done, first, 1)
	if run.Ended.Before(run.Began) || run.Code != 0 || run.Note != "" {
		t.Errorf("done without failure, but it says %+v", run)
	}
	t.release(t.trial.a, first.AcquireRequest, driver.Mine)

	second := t.runner("job", whole)
	if known := t.begin(second.begin("one"), driver.Ended); known != run {
		t.Errorf("refused because of %+v, want %+v", known, run)
	}
	t.begin(second.begin("two"), driver.Begun)
	t.is("job", "one", driver.Done, first, 1)
}

func beginIsIdempotentByToken(t *slotTrial) {
	r := t.runner("job", whole)
	run := t.begin(r.begin("one"), driver.Begun)
	limited := r.begin("one")
	limited.MaxAttempts, limited.NotAfter = 1, run.Began.Add(-time.Hour)
	if again := t.begin(limited, driver.Begun); again.Attempt != 1 || again.Began != run.Began {
		t.Errorf("begun again as %+v, want %+v", again, run)
	}
	failed := r.finish("one")
	failed.Code = 3
	t.finish(failed, driver.Mine)
	late := r.begin("one")
	late.RetryFailed = true
	t.begin(late, driver.Ended)
}

func finishIsIdempotentByToken(t *slotTrial) {
	first := t.runner("job", whole)
	t.begin(first.begin("one"), driver.Begun)
	failed := first.finish("one")
	failed.Code, failed.Note = 3, "exit status 3, §1"
	t.finish(failed, driver.Mine)
	run := t.is("job", "one", driver.Done, first, 1)
	if run.Code != 3 || run.Note != failed.Note {
		t.Errorf("code %d, note %q", run.Code, run.Note)
	}
	t.finish(first.finish("one"), driver.Mine)
	stranger := first.finish("one")
	stranger.Token = driver.NewToken("host/2")
	t.finish(stranger, driver.Taken)
	t.release(t.trial.a, first.AcquireRequest, driver.Mine)
	t.finish(first.finish("one"), driver.Mine)
	second := t.runner("job", whole)
	t.finish(first.finish("one"), driver.Mine)
	t.finish(second.finish("one"), driver.Taken)
	if again := t.is("job", "one", driver.Done, first, 1); again != run {
		t.Errorf("finished again it is %+v, want %+v", again, run)
	}
}

// aTokenGrantedAgainIsAnotherRunner is about an acquire that was left behind and
// comes when the lease of its token has ended.
func aTokenGrantedAgainIsAnotherRunner(t *slotTrial) {
	first := t.runner("job", whole)
	t.begin(first.begin("one"), driver.Begun)
	t.crash(first)
	again := runner{first.AcquireRequest, t.acquire(t.trial.b, first.AcquireRequest)}
	t.finish(first.finish("one"), driver.Taken)
	t.begin(first.begin("two"), driver.NotHeld)
	t.is("job", "one", driver.Running, first, 1)
	t.begin(again.begin("two"), driver.Begun)
	t.finish(again.finish("two"), driver.Mine)
}

func aCrashedRunIsTakenOver(t *slotTrial) {
	start := time.Now()
	first := t.runner("job", t.span())
	t.begin(first.begin("one"), driver.Begun)
	second := runner{AcquireRequest: request("job")}
	t.endsAfter(start, first.TTL, "the job is free", func() bool {
		t.Helper()
		result := t.try(t.trial.b, second.AcquireRequest)
		second.fence = result.Fence
		return result.Granted
	})
	if run, _ := t.run("job", "one"); run.Phase != driver.Running || run.Left > 0 || run.Attempt != 1 {
		t.Errorf("crashed, but it is %+v", run)
	}
	if run := t.begin(second.begin("one"), driver.Begun); run.Attempt != 2 || run.Fence <= first.fence || run.Left <= 0 {
		t.Errorf("taken over as %+v", run)
	}
	t.is("job", "one", driver.Running, second, 2)
}

func aZombieCannotFinish(t *slotTrial) {
	zombie := t.runner("job", whole)
	t.begin(zombie.begin("one"), driver.Begun)
	t.crash(zombie)
	t.finish(zombie.finish("one"), driver.Gone)
	second := t.runner("job", whole)
	t.finish(zombie.finish("one"), driver.Taken)
	t.begin(zombie.begin("one"), driver.NotHeld)
	t.begin(second.begin("one"), driver.Begun)
	t.finish(zombie.finish("one"), driver.Taken)
	t.release(t.trial.b, zombie.AcquireRequest, driver.Taken)
	t.is("job", "one", driver.Running, second, 2)

	wrong := second.finish("one")
	wrong.Fence = zombie.fence
	t.finish(wrong, driver.Taken)
	t.is("job", "one", driver.Running, second, 2)
	t.finish(second.finish("other"), driver.Gone)
	t.finish(second.finish("one"), driver.Mine)
	t.is("job", "one", driver.Done, second, 2)
}

func beginNeedsTheLease(t *slotTrial) {
	r := runner{AcquireRequest: request("job"), fence: 7}
	t.begin(r.begin("one"), driver.NotHeld)
	t.finish(r.finish("one"), driver.Gone)
	t.runner("job", whole)
	t.begin(r.begin("one"), driver.NotHeld)
	t.finish(r.finish("one"), driver.Taken)
	if run, _ := t.run("job", "one"); run.Phase != 0 {
		t.Errorf("begun without the lease: %+v", run)
	}
}

func attemptsAreLimited(t *slotTrial) {
	for attempt := 1; attempt <= 2; attempt++ {
		r := t.runner("job", whole)
		req := r.begin("one")
		req.MaxAttempts = 2
		t.begin(req, driver.Begun)
		t.is("job", "one", driver.Running, r, attempt)
		t.crash(r)
	}
	r := t.runner("job", whole)
	req := r.begin("one")
	req.MaxAttempts = 2
	run := t.begin(req, driver.Ended)
	if run.Phase != driver.Lost || run.Attempt != 2 || run.Ended.IsZero() || run.Token == r.Token || run.Code != 0 {
		t.Errorf("after two crashes of two attempts it is %+v", run)
	}
	open := r.begin("one")
	open.RetryFailed = true
	if again := t.begin(open, driver.Ended); again != run {
		t.Errorf("lost once, it is %+v, want %+v", again, run)
	}
	t.finish(r.finish("one"), driver.Taken)
}

func aFailedRunIsRetriedIfAsked(t *slotTrial) {
	first := t.runner("job", whole)
	t.begin(first.begin("one"), driver.Begun)
	failed := first.finish("one")
	failed.Code, failed.Note = 3, "why"
	t.finish(failed, driver.Mine)
	t.release(t.trial.a, first.AcquireRequest, driver.Mine)

	second := t.runner("job", whole)
	t.begin(second.begin("one"), driver.Ended)
	req := second.begin("one")
	req.RetryFailed, req.MaxAttempts = true, 1
	if run := t.begin(req, driver.Ended); run.Phase != driver.Done {
		t.Errorf("failed with its last attempt, it is %v", run.Phase)
	}
	req.MaxAttempts = 2
	t.begin(req, driver.Begun)
	if run := t.is("job", "one", driver.Running, second, 2); run.Code != 0 || run.Note != "" || !run.Ended.IsZero() {
		t.Errorf("retried, it still says %+v", run)
	}
	t.finish(second.finish("one"), driver.Mine)
	t.release(t.trial.a, second.AcquireRequest, driver.Mine)
	third := t.runner("job", whole)
	req = third.begin("one")
	req.RetryFailed = true
	t.begin(req, driver.Ended)
}

func aLateBeginIsRefused(t *slotTrial) {
	r := t.runner("job", whole)
	_, now := t.run("job", "")
	req := r.begin("one")
	req.NotAfter = now.Add(-time.Second)
	if run := t.begin(req, driver.TooLate); run.Phase != 0 || run.Slot != "one" {
		t.Errorf("too late for %+v", run)
	}
	if run, _ := t.run("job", "one"); run.Phase != 0 {
		t.Errorf("refused, it is %v", run.Phase)
	}
	req.NotAfter = now.Add(whole)
	t.begin(req, driver.Begun)
}
