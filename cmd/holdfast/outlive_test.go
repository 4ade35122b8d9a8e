package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/holdfastlock/holdfast/internal/redistest"
)

// atOnce runs n rounds at the same time, more than t.Parallel would, and waits
// for them.
func atOnce(t *testing.T, n int, round func(i int) error) {
	t.Helper()
	var rounds sync.WaitGroup
	for i := range n {
		rounds.Go(func() {
			if err := round(i); err != nil {
				t.Errorf("round %d: %v", i, err)
			}
		})
	}
	rounds.Wait()
}

// ofLane gives each lane an embedded store of its own: a process that is frozen
// in the middle of a write keeps others out of its file.
func ofLane(url string, lane int) string {
	return strings.Replace(url, "locks.db", fmt.Sprint("locks-", lane, ".db"), 1)
}

// commandFor returns a command that is a job, or has one as a child.
func commandFor(i int, dir string) []string {
	if i%2 == 0 {
		return []string{"job", dir}
	}
	return []string{"sh", "-c", "job " + dir + " & wait"}
}

func TestAKill9OfHoldfastStopsTheCommandAndTheNextRunStartsWithinTheTTL(t *testing.T) {
	const lanes, kills = 5, 5 // on two stores: 50 kills
	onBothStores(t, func(t *testing.T, url string) {
		dir := t.TempDir()
		atOnce(t, lanes, func(lane int) error { return killInARow(ofLane(url, lane), dir, lane, kills) })
	})
}

// killInARow starts one run more than it kills; each waits for the one before.
func killInARow(url, dir string, lane, kills int) error {
	const ttl = 3 * time.Second
	name := fmt.Sprint("job-", lane)
	dir = filepath.Join(dir, name)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	args := append([]string{"run", "--ttl", ttl.String(), "--wait", "forever", name, "--"}, commandFor(lane, dir)...)
	holder := prepare(url, args...)
	if err := holder.Start(); err != nil {
		return err
	}
	killed := time.Now()
	for n := range kills + 1 {
		if err := until(func() bool { return len(starts(dir)) > n }); err != nil {
			_ = holder.Process.Kill()
			return fmt.Errorf("run %d did not start: %w: %s", n, errors.Join(err, holder.Wait()), &holder.stderr)
		}
		job := starts(dir)[n]
		if late := job.granted().Sub(killed); n > 0 && late > ttl+time.Second {
			return fmt.Errorf("run %d was granted its lock %v after the kill", n, late)
		}
		if n == kills {
			break
		}
		next := prepare(url, args...)
		if err := next.Start(); err != nil {
			return err
		}
		killed = time.Now()
		if err := errors.Join(holder.Process.Kill(), holder.Wait()); err == nil {
			return errors.New("a run ended by itself")
		}
		if err := until(func() bool { return gone(job.pid) }); err != nil {
			return fmt.Errorf("job %d goes on: %w", n, err)
		}
		holder = next
	}
	return endOf(holder, dir, 0)
}

// endOf lets the job end, checks the exit code of its run, and that no two jobs
// were at work at once.
func endOf(p *process, dir string, want int) error {
	if err := os.WriteFile(filepath.Join(dir, fileFinish), nil, 0o600); err != nil {
		return err
	}
	got, err := p.end()
	switch {
	case err != nil:
		return err
	case exists(filepath.Join(dir, fileOverlap)):
		return errors.New("two were at work at once")
	case got != want:
		return fmt.Errorf("ended with %d, want %d: %s", got, want, &p.stderr)
	}
	return nil
}

func TestAFrozenHoldfastDoesNotLetItsCommandOutliveTheLease(t *testing.T) {
	const lanes = 5 // on two stores: 10 times
	onBothStores(t, func(t *testing.T, url string) {
		dir := t.TempDir()
		atOnce(t, lanes, func(lane int) error { return freeze(ofLane(url, lane), dir, lane) })
	})
}

// pause stops processes. One that is stopped while it writes to the embedded
// store keeps all others out of it: then it is let go on, and stopped again.
func pause(url string, pids ...int) error {
	for range 100 {
		if err := signalAll(syscall.SIGSTOP, pids...); err != nil {
			return err
		}
		probe := prepare(url, "run", "--connect-timeout", "1s", "probe", "--", "true")
		if err := probe.Start(); err != nil {
			return err
		}
		if code, err := probe.end(); code == 0 || err != nil {
			return err
		}
		if err := signalAll(syscall.SIGCONT, pids...); err != nil {
			return err
		}
		time.Sleep(10 * time.Millisecond) // for the write to end
	}
	return errors.New("it writes all the time")
}

func signalAll(sig syscall.Signal, pids ...int) error {
	for _, pid := range pids {
		if err := syscall.Kill(pid, sig); err != nil {
			return fmt.Errorf("%v to %d: %w", sig, pid, err)
		}
	}
	return nil
}

// freeze stops holdfast alone, without its supervisor and its command, until
// another has the lock, which must be unharmed when it wakes.
func freeze(url, dir string, lane int) error {
	name := fmt.Sprint("job-", lane)
	dir = filepath.Join(dir, name)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	args := append([]string{"run", "--ttl", "3s", "--wait", "forever", name, "--"}, commandFor(lane, dir)...)
	first, second := prepare(url, args...), prepare(url, args...)
	if err := first.Start(); err != nil {
		return err
	}
	if err := until(func() bool { return len(starts(dir)) > 0 }); err != nil {
		_ = first.Process.Kill()
		return fmt.Errorf("the first did not start: %w: %s", errors.Join(err, first.Wait()), &first.stderr)
	}
	if err := pause(url, first.Process.Pid); err != nil {
		return err
	}
	if err := second.Start(); err != nil {
		return err
	}
	if err := until(func() bool { return len(starts(dir)) > 1 }); err != nil {
		return fmt.Errorf("the second did not start: %w", err)
	}
	if !gone(starts(dir)[0].pid) {
		return errors.New("the first job goes on")
	}
	if err := first.Process.Signal(syscall.SIGCONT); err != nil {
		return err
	}
	if code, err := first.end(); code != 79 || err != nil {
		return fmt.Errorf("the one that was frozen ended with %d, want 79: %w: %s", code, err, &first.stderr)
	}
	return endOf(second, dir, 0)
}

func TestInABlackHoleEvenADeafJobIsGoneBeforeTheKeyExpires(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	const rounds = 20
	var proxies []*redistest.Proxy
	for range rounds {
		proxies = append(proxies, redistest.NewProxy(t, server.Addr()))
	}
	dir := t.TempDir()
	atOnce(t, rounds, func(i int) error {
		return blackHole(server, proxies[i], filepath.Join(dir, fmt.Sprint("job-", i)))
	})
}

func blackHole(server *redistest.Server, proxy *redistest.Proxy, dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	name := filepath.Base(dir)
	// Of such a lease 0.6 s are left after the KILL: enough for a test on a busy
	// machine to look in time.
	holder := prepare("redis://"+proxy.Addr(), "run", "--ttl", "15s", "--kill-after", "500ms", name, "--", "job", "-deaf", dir)
	if err := holder.Start(); err != nil {
		return err
	}
	if err := until(func() bool { return len(starts(dir)) > 0 }); err != nil {
		return err
	}
	job := starts(dir)[0]
	proxy.Drop()
	if err := until(func() bool { return gone(job.pid) }); err != nil {
		return fmt.Errorf("the job goes on: %w", err)
	}
	left, err := server.Do("PTTL", "lock:"+name).ToInt64()
	if err != nil || left <= 0 {
		return fmt.Errorf("when the job was gone the key had %d ms left (%v), want more than 0", left, err) //nolint:errorlint // it may be nil
	}
	got, err := holder.end()
	if got != 79 || err != nil || !strings.Contains(holder.stderr.String(), name) {
		return fmt.Errorf("ended with %d (%v), want 79, and said %q", got, err, &holder.stderr) //nolint:errorlint // it may be nil
	}
	server.Do("DEL", "lock:"+name)
	return nil
}

func TestASignalAtAnyMomentEndsTheRunAndFreesTheLock(t *testing.T) {
	const moments, apart = 40, 5 * time.Millisecond
	onBothStores(t, func(t *testing.T, url string) {
		const lanes = 4
		atOnce(t, lanes, func(lane int) error {
			for i := lane; i < moments; i += lanes {
				if err := signalAfter(url, fmt.Sprint("job-", lane), time.Duration(i)*apart); err != nil {
					return fmt.Errorf("TERM after %v: %w", time.Duration(i)*apart, err)
				}
			}
			return nil
		})
	})
}

func signalAfter(url, name string, moment time.Duration) error {
	p := prepare(url, "run", "--wait", "forever", name, "--", "sleep", "1000")
	if err := p.Start(); err != nil {
		return err
	}
	time.Sleep(moment)
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	// Before it has begun to listen the signal ends it as it does any program.
	if code, err := p.end(); err != nil || code != 143 && code != -1 {
		return fmt.Errorf("ended with %d (%w), want 143: %s", code, err, &p.stderr)
	}
	show := prepare(url, "show", name)
	if err := show.Start(); err != nil {
		return err
	}
	if code, err := show.end(); err != nil || code != 1 {
		return fmt.Errorf("the lock is still held (%d, %w)", code, err)
	}
	return nil
}

func TestASignalEndsTheAttemptToConnect(t *testing.T) {
	proxy := redistest.NewProxy(t, "127.0.0.1:1")
	proxy.Drop()
	p := holdfast(t, "redis://"+proxy.Addr(), "run", "--connect-timeout", "10m", lockName, "--", "true")
	waitUntilItHasOpened(t, p.Process.Pid)
	if err := p.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if got := p.code(t); got != 130 {
		t.Errorf("ended with %d, want 130: %s", got, &p.stderr)
	}
}

func TestSignalsDuringTheReleaseLeaveTheCommandsOwnCode(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	proxy := redistest.NewProxy(t, server.Addr())
	dir := t.TempDir()
	p := holdfast(t, "redis://"+proxy.Addr(), "run", lockName, "--", "job", "-exit", "5", dir)
	job := waitFor(t, dir, 1)
	proxy.Drop()
	finish(t, dir)
	if err := until(func() bool { return gone(job.pid) }); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := p.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
	}
	if got := p.code(t); got != 5 || !strings.Contains(p.stderr.String(), "could not be released") {
		t.Errorf("ended with %d, want 5, and said %q", got, &p.stderr)
	}
}
