package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// patience is how long a test waits for what must happen.
const patience = 60 * time.Second

// Files in the folder of a job.
const (
	fileInside  = "inside"  // locked by the kernel while a job is at work
	fileStarted = "started" // a line for each job: its process and its fence
	fileOverlap = "overlap" // exists if two were at work at once
	fileFinish  = "finish"  // tells a job to end
)

// job is a program: it works until its folder has the file "finish". That no
// two are at work at once it checks by a lock that ends with its process.
func job() {
	deaf := flag.Bool("deaf", false, "ignore TERM")
	exit := flag.Int("exit", 0, "exit code")
	flag.Parse()
	if *deaf {
		signal.Ignore(syscall.SIGTERM)
	}
	dir := flag.Arg(0)
	inside, err := os.OpenFile(filepath.Join(dir, fileInside), os.O_CREATE|os.O_RDWR, 0o600)
	must(err)
	if syscall.Flock(int(inside.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		must(os.WriteFile(filepath.Join(dir, fileOverlap), nil, 0o600))
	}
	started, err := os.OpenFile(filepath.Join(dir, fileStarted), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	must(err)
	_, err = fmt.Fprintf(started, "%d %s\n", os.Getpid(), os.Getenv("HOLDFAST_FENCE"))
	must(err)
	must(until(func() bool { return exists(filepath.Join(dir, fileFinish)) }))
	must(inside.Close())
	os.Exit(*exit)
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// start is one line of the file "started".
type start struct {
	pid   int
	fence int64
}

// starts returns the jobs that were started in the folder.
func starts(dir string) []start {
	text, _ := os.ReadFile(filepath.Join(dir, fileStarted))
	var all []start
	for line := range strings.Lines(string(text)) {
		if !strings.HasSuffix(line, "\n") {
			break // not yet written to its end
		}
		pid, fence, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		var s start
		s.pid, _ = strconv.Atoi(pid)
		s.fence, _ = strconv.ParseInt(fence, 10, 64)
		all = append(all, s)
	}
	return all
}

// granted is when the lock was granted, by the store's clock, which is this
// machine's: a fence is made from its microseconds.
func (s start) granted() time.Time { return time.UnixMicro(s.fence) }

// gone says whether a process has ended.
func gone(pid int) bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// until waits for a condition.
func until(condition func() bool) error {
	for deadline := time.Now().Add(patience); !condition(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			return errors.New("waited in vain")
		}
	}
	return nil
}
