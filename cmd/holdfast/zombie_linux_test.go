package main

import (
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// night is a slot that one host runs, and another takes over while the first is
// frozen.
type night struct {
	url             string
	zombie          *process
	supervisor, job int // processes of the zombie
	first           start
	folders         [2]string // of the two jobs, which may overlap here
	successor       *process
}

// begin starts the first host.
func (n *night) begin(t *testing.T) {
	t.Helper()
	n.folders = [2]string{t.TempDir(), t.TempDir()}
	n.zombie = n.host(t, 0)
	n.first = waitFor(t, n.folders[0], 1)
	n.job = n.first.pid
	n.supervisor = parent(t, n.job)
}

func (n *night) host(t *testing.T, i int) *process {
	return holdfast(t, n.url, "run", "--ttl", "4s", "--slot", "night", "--wait", "forever", lockName, "--", "job", n.folders[i])
}

// parent returns the parent of a process.
func parent(t *testing.T, pid int) int {
	t.Helper()
	status, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	_, after, _ := strings.Cut(string(status), "\nPPid:\t")
	number, _, _ := strings.Cut(after, "\n")
	ppid, wrong := strconv.Atoi(number)
	if err != nil || wrong != nil {
		t.Fatal(err, wrong)
	}
	return ppid
}

// takeOver freezes processes, and lets another host have the slot.
func (n *night) takeOver(t *testing.T, frozen ...int) {
	t.Helper()
	if err := pause(n.url, frozen...); err != nil {
		t.Fatal(err)
	}
	n.successor = n.host(t, 1)
	second := waitFor(t, n.folders[1], 1)
	if second.fence <= n.first.fence {
		t.Errorf("the successor has fence %d, the zombie %d", second.fence, n.first.fence)
	}
}

func wake(t *testing.T, pids ...int) {
	t.Helper()
	if err := signalAll(syscall.SIGCONT, pids...); err != nil {
		t.Fatal(err)
	}
}

// expect checks the record and who has the lock after the zombie has ended, and
// that the successor then ends well.
func (n *night) expect(t *testing.T) {
	t.Helper()
	if got := n.zombie.code(t); got != 79 || !strings.Contains(n.zombie.stderr.String(), lockName) {
		t.Errorf("the zombie ended with %d, want 79, and said %q", got, &n.zombie.stderr)
	}
	second := starts(n.folders[1])[0]
	run := theRun(t, n.url)
	if run.Outcome != "running" || run.Attempt != 2 || run.Fence != second.fence || run.pid() != n.successor.Process.Pid {
		t.Errorf("after the zombie's return the record is %+v; the successor is %d with fence %d", run, n.successor.Process.Pid, second.fence)
	}
	if ttlLeft(t, n.url) <= 0 {
		t.Error("the successor's lock is free")
	}
	rival := holdfast(t, n.url, "run", lockName, "--", "true")
	if got := rival.code(t); got != 75 {
		t.Errorf("beside the successor another ended with %d, want 75: %s", got, &rival.stderr)
	}
	finish(t, n.folders[1])
	if got := n.successor.code(t); got != 0 || n.successor.stderr.Len() > 0 {
		t.Errorf("the successor ended with %d and said %q", got, &n.successor.stderr)
	}
	done := theRun(t, n.url)
	run.Outcome = "done"
	if done != run {
		t.Errorf("the record is %+v, want %+v", done, run)
	}
	if len(starts(n.folders[0])) != 1 || len(starts(n.folders[1])) != 1 {
		t.Error("a job was started twice")
	}
}

func TestAMachineThatWasPausedPastTheTTLLeavesTheSlotToItsSuccessor(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, url string) {
		n := &night{url: url}
		n.begin(t)
		n.takeOver(t, n.zombie.Process.Pid, n.supervisor, n.job)
		wake(t, n.job, n.supervisor, n.zombie.Process.Pid) // each after those that it can end
		n.expect(t)
		if !gone(n.job) {
			t.Error("the zombie's job goes on")
		}
	})
}

func TestAJobThatEndsWellAfterThePauseDoesNotMakeItsSlotDone(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, url string) {
		n := &night{url: url}
		n.begin(t)
		n.takeOver(t, n.zombie.Process.Pid, n.supervisor, n.job)
		// The job is the first to wake, and has ended when the others do.
		finish(t, n.folders[0])
		wake(t, n.job)
		if err := until(func() bool { return isZombie(n.job) }); err != nil {
			t.Fatal(err)
		}
		wake(t, n.supervisor, n.zombie.Process.Pid)
		n.expect(t)
	})
}

// isZombie says whether a process has ended and was not waited for.
func isZombie(pid int) bool {
	stat, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return strings.Contains(string(stat), ") Z ")
}

func TestAFrozenHoldfastLosesItsCommandAndItsSlot(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, url string) {
		n := &night{url: url}
		n.begin(t)
		n.takeOver(t, n.zombie.Process.Pid)
		if !gone(n.job) {
			t.Error("another runs, and the command of the frozen holdfast goes on")
		}
		wake(t, n.zombie.Process.Pid)
		n.expect(t)
	})
}
