package redisstore

import (
	"fmt"
	"testing"
	"time"

	"github.com/holdfastlock/holdfast/driver"
	"github.com/holdfastlock/holdfast/internal/redistest"
)

func begin(t *testing.T, store *Store, lease driver.AcquireRequest, fence int64, slot string) driver.Run {
	t.Helper()
	result, err := store.BeginSlot(within(t), beginRequest(lease, fence, slot))
	if err != nil || result.Verdict != driver.Begun {
		t.Fatalf("BeginSlot %q: %+v, %v", slot, result, err)
	}
	return result.Run
}

func beginRequest(lease driver.AcquireRequest, fence int64, slot string) driver.BeginRequest {
	return driver.BeginRequest{Job: lease.Name, Slot: slot, Token: lease.Token, Fence: fence}
}

func finish(t *testing.T, store *Store, lease driver.AcquireRequest, fence int64, slot string, code int) {
	t.Helper()
	answer, err := store.FinishSlot(within(t), driver.FinishRequest{
		Job: lease.Name, Slot: slot, Token: lease.Token, Fence: fence, Code: code, Note: "note", Keep: time.Hour,
	})
	if err != nil || answer != driver.Mine {
		t.Fatalf("FinishSlot %q: %v, %v", slot, answer, err)
	}
}

func slotRun(t *testing.T, store *Store, job, slot string) driver.Run {
	t.Helper()
	run, _, err := store.InspectSlot(within(t), job, slot)
	if err != nil {
		t.Fatal(err)
	}
	return run
}

// TestARunThatBeganIsMarkedDoneWithFullMemory: else it would run again.
func TestARunThatBeganIsMarkedDoneWithFullMemory(t *testing.T) {
	server, store := given(t)
	lease := request("job")
	fence := acquire(t, store, lease)
	begin(t, store, lease, fence, "good")
	begin(t, store, lease, fence, "bad")
	do(t, server, "CONFIG", "SET", "maxmemory", "1")

	_, err := store.BeginSlot(within(t), beginRequest(lease, fence, "new"))
	wantKind(t, err, driver.ErrRefused)
	for range 2 {
		finish(t, store, lease, fence, "good", 0)
		finish(t, store, lease, fence, "bad", 3)
	}
	if run := slotRun(t, store, "job", "new"); run.Phase != 0 {
		t.Errorf("refused, and yet %+v", run)
	}
	for slot, code := range map[string]int{"good": 0, "bad": 3} {
		if run := slotRun(t, store, "job", slot); run.Phase != driver.Done || run.Code != code || run.Note != "note" || run.Ended.IsZero() {
			t.Errorf("%s: %+v", slot, run)
		}
	}
}

func TestARunIsNotHalfMarkedLostWithFullMemory(t *testing.T) {
	server, store := given(t)
	first, second := request("job"), request("job")
	begin(t, store, first, acquire(t, store, first), "s")
	release(t, store, first, driver.Mine)
	req := beginRequest(second, acquire(t, store, second), "s")
	req.MaxAttempts = 1
	do(t, server, "CONFIG", "SET", "maxmemory", "1")
	_, err := store.BeginSlot(within(t), req)
	wantKind(t, err, driver.ErrRefused)
	if run := slotRun(t, store, "job", "s"); run.Phase != driver.Running || run.Token != first.Token {
		t.Errorf("the run is %+v", run)
	}
	do(t, server, "CONFIG", "SET", "maxmemory", "0")
	if result, err := store.BeginSlot(within(t), req); err != nil || result.Run.Phase != driver.Lost {
		t.Errorf("%+v, %v, want lost", result, err)
	}
}

func TestAMissingRightLeavesNoSlotBegun(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	for _, right := range []string{"hset", "zadd", "zremrangebyrank", "pexpire"} {
		lease := request(right)
		fence := acquire(t, open(t, server.Addr()), lease)
		store := asUser(t, server, "no-"+right, "~lock:*", "+@all", "-"+right)
		_, err := store.BeginSlot(within(t), beginRequest(lease, fence, "s"))
		wantKind(t, err, driver.ErrRefused)
		if run := slotRun(t, store, right, "s"); run.Phase != 0 {
			t.Errorf("without %s it is %+v", right, run)
		}
	}
}

func TestWhatIsKnownOfSlotsEndsByItself(t *testing.T) {
	server, store := given(t)
	for _, job := range []string{"job", "{t}job"} {
		lease := request(job)
		fence := acquire(t, store, lease)
		begin(t, store, lease, fence, "done")
		finish(t, store, lease, fence, "done", 0)
		begin(t, store, lease, fence, "crashed")
	}
	month := driver.RunningKeep.Milliseconds()
	for key, longest := range map[string]int64{
		"lock:~s:{lock:job}:done": time.Hour.Milliseconds(), "lock:~s:{lock:job}:crashed": month, "lock:~r:{lock:job}": month,
		"lock:~s:{t}11:lock:{t}job:done": time.Hour.Milliseconds(), "lock:~s:{t}11:lock:{t}job:crashed": month,
		"lock:~r:{t}lock:{t}job": month,
	} {
		if left := number(t, server, "PTTL", key); left <= longest/2 || left > longest {
			t.Errorf("%s lasts %d ms, want %d", key, left, longest)
		}
	}
	lease := request("often")
	fence := acquire(t, store, lease)
	for i := range driver.MaxRuns + 5 {
		begin(t, store, lease, fence, fmt.Sprint(i))
	}
	if n := number(t, server, "ZCARD", "lock:~r:{lock:often}"); n != driver.MaxRuns {
		t.Errorf("the index has %d slots", n)
	}
}

func TestASlotHasOneKey(t *testing.T) {
	server, store := given(t)
	for _, job := range []string{"job", "{t}job"} {
		lease := request(job)
		fence := acquire(t, store, lease)
		begin(t, store, lease, fence, "done")
		finish(t, store, lease, fence, "done", 0)
		begin(t, store, lease, fence, "crashed")
	}
	if n := number(t, server, "DBSIZE"); n != 10 {
		t.Errorf("%d keys, want 6 of slots, 2 locks and 2 companions", n)
	}
}

func TestEachStepOfASlotIsOneScript(t *testing.T) {
	server, store := given(t)
	lease := request("job")
	fence := acquire(t, store, lease)
	steps := func(slot string) map[string]func() {
		return map[string]func(){
			"inspect": func() { slotRun(t, store, "job", slot) },
			"begin":   func() { begin(t, store, lease, fence, slot) },
			"finish":  func() { finish(t, store, lease, fence, slot, 0) },
		}
	}
	for _, slot := range []string{"warm", "counted"} {
		for _, name := range []string{"inspect", "begin", "finish"} {
			counts := sent(t, server, steps(slot)[name])
			if slot == "counted" && (counts["evalsha"] != 1 || counts["eval"] != 0) {
				t.Errorf("%s: %v, want one evalsha", name, counts)
			}
		}
	}
}

func TestSlotsStayInTheSlotOfTheirJobInACluster(t *testing.T) {
	_, store := cluster(t)
	for _, job := range []string{"job", "{t}job", "x{t}{}", "a{b"} {
		lease := request(job)
		fence := acquire(t, store, lease)
		for _, s := range []string{"plain", "{x}", "}", "a:b"} {
			begin(t, store, lease, fence, s)
			finish(t, store, lease, fence, s, 0)
			if run := slotRun(t, store, job, s); run.Phase != driver.Done {
				t.Errorf("job %q, slot %q: %+v", job, s, run)
			}
			k, record, err := store.slotKeys(job, s)
			if err != nil || slot(record) != slot(k.lock) || slot(k.runs()) != slot(k.lock) {
				t.Errorf("keys %+v, %v", k, err)
			}
		}
		if runs, err := store.Runs(within(t), job, 10); err != nil || len(runs) != 4 {
			t.Errorf("runs of %q: %+v, %v", job, runs, err)
		}
	}
}
