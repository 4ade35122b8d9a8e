package main

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfastlock/holdfast/internal/redistest"
)

func TestACrashedNightIsDoneByOneOfThoseWhoStandBy(t *testing.T) {
	onBothStores(t, func(t *testing.T, url string) {
		const hosts, ttl = 12, 4 * time.Second
		dir := t.TempDir()
		type ended struct {
			p    *process
			code int
		}
		codes := make(chan ended, hosts)
		byPid := map[int]*process{}
		for range hosts {
			p := holdfast(t, url, "run", "--ttl", ttl.String(), "--wait", "forever", "--slot", "night", lockName, "--", "job", dir)
			byPid[p.Process.Pid] = p
			go func() { codes <- ended{p, p.code(t)} }()
		}
		first := waitFor(t, dir, 1)
		before := theRun(t, url)
		runner := byPid[before.pid()]
		if runner == nil {
			t.Fatal("the runner is none of ours")
		}
		killed := time.Now()
		if err := runner.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		second := waitFor(t, dir, 2)
		if err := until(func() bool { return gone(first.pid) }); err != nil {
			t.Errorf("the job of the killed one goes on: %v", err)
		}
		if took := second.granted().Sub(killed); took > ttl+time.Second {
			t.Errorf("taken over %v after the kill", took)
		}
		finish(t, dir)
		for range hosts {
			e := <-codes
			want := 0
			if e.p == runner {
				want = -1 // by the signal
			}
			if e.code != want || e.p.stderr.Len() > 0 {
				t.Errorf("a host ended with %d, want %d, and said %q", e.code, want, &e.p.stderr)
			}
		}
		after := theRun(t, url)
		if before.Attempt != 1 || before.Outcome != "running" || before.Fence != first.fence {
			t.Errorf("before the kill the record was %+v; the job was given fence %d", before, first.fence)
		}
		if after.Attempt != 2 || after.Outcome != "done" || after.Fence != second.fence || second.fence <= first.fence {
			t.Errorf("after %+v the record is %+v; the second job was given fence %d", before, after, second.fence)
		}
		if another := byPid[after.pid()]; another == nil || another == runner {
			t.Errorf("taken over by %s from %s", after.Host, before.Host)
		}
		if n := len(starts(dir)); n != 2 || exists(filepath.Join(dir, fileOverlap)) {
			t.Errorf("the job was started %d times, want twice and not at the same time", n)
		}
	})
}

func TestACommandThatWasStoppedForItsLeaseLeavesItsSlotToTheNextAttempt(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	proxy := redistest.NewProxy(t, server.Addr())
	dir := t.TempDir()
	// It ends well when it is told to stop, and long before its lease does.
	script := "trap 'echo > " + dir + "/told; exit 0' TERM; echo > " + dir + "/begun; while :; do sleep 0.05; done"
	first := holdfast(t, "redis://"+proxy.Addr(), "run", "--ttl", "9s", "--kill-after", "2s",
		"--slot", "night", lockName, "--", "sh", "-c", script)
	await := func(file string) {
		t.Helper()
		if err := until(func() bool { return exists(filepath.Join(dir, file)) }); err != nil {
			t.Fatalf("%s: %v: %s", file, err, &first.stderr)
		}
	}
	await("begun")
	proxy.Drop()
	await("told")
	proxy.Heal() // in time to mark the slot done
	if got := first.code(t); got != 79 {
		t.Errorf("the one that was stopped ended with %d, want 79: %s", got, &first.stderr)
	}
	second := holdfast(t, server.URL(), "run", "--wait", "forever", "--slot", "night", lockName, "--", "true")
	if got := second.code(t); got != 0 {
		t.Errorf("the second ended with %d: %s", got, &second.stderr)
	}
	if run := theRun(t, server.URL()); run.Attempt != 2 || run.Outcome != "done" {
		t.Errorf("the record is %+v, want attempt 2, done", run)
	}
}

type slotRun struct {
	Outcome string `json:"outcome"`
	Host    string `json:"host"`
	Attempt int    `json:"attempt"`
	Fence   int64  `json:"fence"`
}

// pid returns the process that ran the slot: the owner is host/pid.
func (r slotRun) pid() int {
	_, number, _ := strings.Cut(r.Host, "/")
	pid, _ := strconv.Atoi(number)
	return pid
}

// theRun returns the record of the one slot that the lock's job has had.
func theRun(t *testing.T, url string) slotRun {
	t.Helper()
	runs := runsOf(t, url, lockName)
	if len(runs) != 1 {
		t.Fatalf("want one run: %+v", runs)
	}
	return runs[0]
}

func runsOf(t *testing.T, url, job string) (runs []slotRun) {
	t.Helper()
	out, err := exec.Command("holdfast", "runs", "--json", "--store", url, job).Output()
	if err != nil || json.Unmarshal(out, &runs) != nil {
		t.Fatalf("runs: %v: %s", err, out)
	}
	return runs
}
