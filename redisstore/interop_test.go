package redisstore

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/holdfastlock/holdfast"
	"github.com/holdfastlock/holdfast/internal/redistest"
)

// Others that lock the same key by SET NX PX and compare and delete.

// redisPy is a Python process that holds locks with redis-py.
type redisPy struct {
	t      *testing.T
	stdin  io.Writer
	answer *bufio.Scanner
}

func startRedisPy(t *testing.T, server *redistest.Server) *redisPy {
	t.Helper()
	// Debian's, which has the package; another Python may come first in PATH.
	python := "/usr/bin/python3"
	if err := exec.Command(python, "-c", "import redis").Run(); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("python3-redis is missing: %v", err)
		}
		t.Skip("needs redis-py: apt-get install python3-redis")
	}
	cmd := exec.Command(python, "testdata/redispy.py", strconv.Itoa(server.Port()))
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stdin.Close()
		cmd.Wait()
	})
	return &redisPy{t: t, stdin: stdin, answer: bufio.NewScanner(stdout)}
}

func (p *redisPy) ask(format string, args ...any) string {
	p.t.Helper()
	if _, err := fmt.Fprintf(p.stdin, format+"\n", args...); err != nil {
		p.t.Fatal(err)
	}
	if !p.answer.Scan() {
		p.t.Fatalf("redis-py has ended: %v", p.answer.Err())
	}
	return p.answer.Text()
}

func (p *redisPy) want(want, format string, args ...any) {
	p.t.Helper()
	if got := p.ask(format, args...); got != want {
		p.t.Errorf("redis-py answers %s to %q, want %s", got, fmt.Sprintf(format, args...), want)
	}
}

func TestRedisPyAndWeExcludeEachOther(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	python := startRedisPy(t, server)
	l := locker(t, server.Addr(), holdfast.Config{})

	for name, opts := range map[string][]holdfast.AcquireOption{
		"fenced": {}, "bare": {holdfast.WithoutFence()},
	} {
		python.want("yes", "acquire lock:%s 60", name)
		var held *holdfast.HeldError
		if _, err := l.TryAcquire(within(t), name, opts...); !errors.As(err, &held) || !held.Holder.Foreign() {
			t.Errorf("%s: while redis-py holds it we get %v", name, err)
		}
		python.want("released", "release lock:%s", name)

		lease, err := l.TryAcquire(within(t), name, opts...)
		if err != nil {
			t.Fatalf("%s: after redis-py released: %v", name, err)
		}
		python.want("no", "acquire lock:%s 60", name)
		if err := lease.Release(within(t)); err != nil {
			t.Error(err)
		}
		python.want("yes", "acquire lock:%s 60", name)
	}
}

func TestNeitherRedisPyNorWeFreeTheOthersLock(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	python := startRedisPy(t, server)
	l := locker(t, server.Addr(), holdfast.Config{})

	python.want("yes", "acquire lock:report 0.1")
	lease := hold(t, l) // polls until it has expired
	python.want("not-owned", "release lock:report")
	if got := do(t, server, "GET", "lock:report"); got != lease.Token() {
		t.Errorf("after redis-py's late release the key holds %q", got)
	}
	if err := lease.Release(within(t)); err != nil {
		t.Fatal(err)
	}

	late := hold(t, l, holdfast.WithTTL(100*time.Millisecond), holdfast.WithoutKeepAlive())
	gone(t, server)
	python.want("yes", "acquire lock:report 60")
	wantLost(t, late.Release(within(t)), holdfast.LostExpired)
	python.want("released", "release lock:report")
}

// textbookRelease is the script that every description of the lock has.
const textbookRelease = `if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("del",KEYS[1]) else return 0 end`

func TestTheTextbookLockAndWeExcludeEachOther(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	l := locker(t, server.Addr(), holdfast.Config{})

	do(t, server, "SET", "lock:report", "theirs", "NX", "PX", "60000")
	if _, err := l.TryAcquire(within(t), "report"); !errors.Is(err, holdfast.ErrHeld) {
		t.Errorf("while they hold it we get %v", err)
	}
	if number(t, server, "EVAL", textbookRelease, "1", "lock:report", "theirs") != 1 {
		t.Error("they could not release their own")
	}
	lease := hold(t, l)
	if setNX(t, server, "theirs") {
		t.Error("they took the lock that we hold")
	}
	if number(t, server, "EVAL", textbookRelease, "1", "lock:report", "theirs") != 0 {
		t.Error("they released ours")
	}
	if err := lease.Release(within(t)); err != nil {
		t.Error(err)
	}
	if !setNX(t, server, "theirs") {
		t.Error("the name is not free after our release")
	}
}
