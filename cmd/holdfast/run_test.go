package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfastlock/holdfast/internal/redistest"
)

// lockName is the lock of these tests.
const lockName = "nightly-report"

// onBothStores runs a test on Redis and on the embedded store.
func onBothStores(t *testing.T, test func(t *testing.T, url string)) {
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		test(t, redistest.Start(t, redistest.Options{}).URL())
	})
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		test(t, "sqlite://"+filepath.Join(t.TempDir(), "locks.db"))
	})
}

// process is a holdfast command that was started.
type process struct {
	*exec.Cmd
	stderr bytes.Buffer
}

func holdfast(t *testing.T, url string, args ...string) *process {
	t.Helper()
	p := prepare(url, args...)
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	return p
}

func prepare(url string, args ...string) *process {
	p := &process{Cmd: exec.Command("holdfast", args...)}
	p.Env = append(os.Environ(), "HOLDFAST_STORE="+url)
	p.Stderr = &p.stderr
	return p
}

// code waits for the end of the process and returns its exit code, which is -1
// if a signal ended it.
func (p *process) code(t *testing.T) int {
	t.Helper()
	code, err := p.end()
	if err != nil {
		t.Fatal(err)
	}
	return code
}

func (p *process) end() (code int, err error) {
	err = p.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return 0, err
	}
	return p.ProcessState.ExitCode(), nil
}

// waitFor waits until n jobs were started in the folder and returns the last.
func waitFor(t *testing.T, dir string, n int) start {
	t.Helper()
	if err := until(func() bool { return len(starts(dir)) >= n }); err != nil {
		t.Fatalf("job %d did not start: %v", n, err)
	}
	return starts(dir)[n-1]
}

func finish(t *testing.T, dir string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, fileFinish), nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestOfTwelveSchedulersOneRunsAndElevenReportThatItIsHeld(t *testing.T) {
	for name, c := range map[string]struct {
		flags []string
		code  int
	}{
		"fail": {nil, 75},
		"skip": {[]string{"--on-conflict", "skip"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			onBothStores(t, func(t *testing.T, url string) { twelveSchedulers(t, url, c.flags, c.code) })
		})
	}
}

func twelveSchedulers(t *testing.T, url string, flags []string, want int) {
	const schedulers, winnersCode = 12, 3
	dir := t.TempDir()
	args := append([]string{"run", lockName}, flags...)
	args = append(args, "--", "job", "-exit", strconv.Itoa(winnersCode), dir)
	codes := make(chan int, schedulers)
	for range schedulers {
		p := holdfast(t, url, args...)
		go func() { codes <- p.code(t) }()
	}
	for range schedulers - 1 {
		if got := <-codes; got != want {
			t.Errorf("a scheduler that did not run ended with %d, want %d", got, want)
		}
	}
	finish(t, dir)
	if got := <-codes; got != winnersCode {
		t.Errorf("the one that ran ended with %d, want %d", got, winnersCode)
	}
	if n := len(starts(dir)); n != 1 {
		t.Errorf("the job was started %d times, want once", n)
	}
}

func TestAfterAKill9TheJobIsStoppedAndAnotherRunsWhenTheLeaseIsOver(t *testing.T) {
	onBothStores(t, func(t *testing.T, url string) {
		const ttl = 3 * time.Second
		dir := t.TempDir()
		first := holdfast(t, url, "run", "--ttl", ttl.String(), lockName, "--", "job", dir)
		job := waitFor(t, dir, 1)
		second := holdfast(t, url, "run", "--ttl", ttl.String(), "--wait", "forever", lockName, "--", "job", dir)

		asked := time.Now()
		notBefore := asked.Add(ttlLeft(t, url))
		killed := time.Now()
		if err := first.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		first.code(t)
		if err := until(func() bool { return gone(job.pid) }); err != nil {
			t.Fatalf("the job of the killed one goes on: %v", err)
		}
		next := waitFor(t, dir, 2)
		finish(t, dir)
		if got := second.code(t); got != 0 {
			t.Errorf("the second ended with %d: %s", got, &second.stderr)
		}
		if at := next.granted(); at.Before(notBefore) || at.After(killed.Add(ttl+time.Second)) {
			t.Errorf("granted %v after the kill; want between %v and %v", at.Sub(killed), notBefore.Sub(killed), ttl+time.Second)
		}
	})
}

// ttlLeft returns how long the holder's lease lasts, at the least.
func ttlLeft(t *testing.T, url string) time.Duration {
	t.Helper()
	cmd := exec.Command("holdfast", "show", "--json", "--store", url, lockName)
	out, err := cmd.Output()
	var lock struct {
		Holders []struct {
			Left int64 `json:"ttl_left_ms"`
		}
	}
	if err != nil || json.Unmarshal(out, &lock) != nil || len(lock.Holders) != 1 {
		t.Fatalf("%s: %v: %s", cmd, err, out)
	}
	return time.Duration(lock.Holders[0].Left) * time.Millisecond
}

func TestAJobOfManyTTLsKeepsItsLockToTheEnd(t *testing.T) {
	onBothStores(t, func(t *testing.T, url string) {
		const ttl, long, jobsCode = 2 * time.Second, 4, 9
		dir := t.TempDir()
		holder := holdfast(t, url, "run", "--ttl", ttl.String(), lockName, "--", "job", "-exit", strconv.Itoa(jobsCode), dir)
		waitFor(t, dir, 1)
		for began := time.Now(); time.Since(began) < long*ttl; {
			rival := holdfast(t, url, "run", lockName, "--", "job", dir)
			if got := rival.code(t); got != 75 {
				t.Fatalf("after %v another ended with %d, want 75: %s", time.Since(began), got, &rival.stderr)
			}
		}
		finish(t, dir)
		if got := holder.code(t); got != jobsCode || holder.stderr.Len() > 0 {
			t.Errorf("the holder ended with %d, want %d, and said %q", got, jobsCode, &holder.stderr)
		}
	})
}

func TestASignalEndsAWaitAndLeavesNothingBehind(t *testing.T) {
	onBothStores(t, func(t *testing.T, url string) {
		dir := t.TempDir()
		holder := holdfast(t, url, "run", lockName, "--", "job", dir)
		waitFor(t, dir, 1)
		var waiters []*process
		signals := []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGUSR1}
		for range signals {
			waiters = append(waiters, holdfast(t, url, "run", "--wait", "forever", lockName, "--", "job", dir))
		}
		for i, sig := range signals {
			waitUntilItHasOpened(t, waiters[i].Process.Pid)
			if err := waiters[i].Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
			if got := waiters[i].code(t); got != 128+int(sig) {
				t.Errorf("%v: ended with %d, want %d: %s", sig, got, 128+int(sig), &waiters[i].stderr)
			}
		}
		finish(t, dir)
		if got := holder.code(t); got != 0 || len(starts(dir)) != 1 {
			t.Errorf("the holder ended with %d, %d jobs were started", got, len(starts(dir)))
		}
	})
}

// waitUntilItHasOpened waits until a process has opened its store; it catches
// signals from before that.
func waitUntilItHasOpened(t *testing.T, pid int) {
	t.Helper()
	folder := "/proc/" + strconv.Itoa(pid) + "/fd"
	err := until(func() bool {
		files, _ := os.ReadDir(folder)
		return slices.ContainsFunc(files, func(file os.DirEntry) bool {
			target, _ := os.Readlink(filepath.Join(folder, file.Name()))
			return strings.HasPrefix(target, "socket:") || strings.HasSuffix(target, "locks.db")
		})
	})
	if err != nil {
		t.Fatal(err)
	}
}
