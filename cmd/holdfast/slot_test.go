package main

import (
	"encoding/json"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestACrashedNightIsDoneByOneOfThoseWhoStandBy(t *testing.T) {
	onBothStores(t, func(t *testing.T, url string) {
		const hosts, ttl = 12, 2 * time.Second
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
		runner := byPid[runsOf(t, url)[0].pid()]
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
			if e.p != runner && (e.code != 0 || e.p.stderr.Len() > 0) {
				t.Errorf("a host ended with %d and said %q", e.code, &e.p.stderr)
			}
		}
		run := runsOf(t, url)[0]
		if len(starts(dir)) != 2 || run.Attempt != 2 || run.Outcome != "done" || run.Fence <= first.fence {
			t.Errorf("%d starts; the record is %+v, the first fence was %d", len(starts(dir)), run, first.fence)
		}
	})
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

func runsOf(t *testing.T, url string) []slotRun {
	t.Helper()
	out, err := exec.Command("holdfast", "runs", "--json", "--store", url, lockName).Output()
	var runs []slotRun
	if err != nil || json.Unmarshal(out, &runs) != nil || len(runs) != 1 {
		t.Fatalf("runs: %v: %s", err, out)
	}
	return runs
}
