package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
)

// workerVariable, set in the environment, makes the program do one job that it
// reads from its standard input.
const workerVariable = "HOLDFAST_BENCH_WORKER"

// member is a process that takes part in a contended run. It waits for begin
// when ready is closed, or fails before.
type member struct {
	ready  chan struct{}
	begin  chan struct{}
	ended  chan struct{}
	share  share // what follows may be read when ended is closed
	failed error
}

// enlist starts a member in a process of its own, or in this one.
func enlist(ctx context.Context, j job, apart bool) *member {
	m := &member{ready: make(chan struct{}), begin: make(chan struct{}), ended: make(chan struct{})}
	do := j.work
	if apart {
		do = j.delegate
	}
	go func() {
		defer close(m.ended)
		m.share, m.failed = do(ctx, func() { close(m.ready) }, m.begin)
	}()
	return m
}

// waitReady returns an error if the member ended before it was ready.
func (m *member) waitReady() error {
	select {
	case <-m.ready:
		return nil
	case <-m.ended:
		return m.failed
	}
}

// delegate has another process of this program work.
func (j job) delegate(ctx context.Context, ready func(), begin <-chan struct{}) (share, error) {
	binary, err := os.Executable()
	if err != nil {
		return share{}, err
	}
	worker := exec.CommandContext(ctx, binary)
	worker.Env = append(os.Environ(), workerVariable+"=1")
	worker.Stderr = os.Stderr
	stdin, err := worker.StdinPipe()
	if err != nil {
		return share{}, err
	}
	stdout, err := worker.StdoutPipe()
	if err != nil {
		return share{}, err
	}
	if err := worker.Start(); err != nil {
		return share{}, err
	}
	s, err := j.talk(stdin, stdout, ready, begin, ctx.Done())
	stdin.Close()
	return s, errors.Join(err, worker.Wait())
}

// talk gives the job to a worker, says when to begin, and reads what it did.
func (j job) talk(to io.Writer, from io.Reader, ready func(), begin, cancelled <-chan struct{}) (share, error) {
	if err := json.NewEncoder(to).Encode(j); err != nil {
		return share{}, err
	}
	answers := bufio.NewReader(from)
	if line, err := answers.ReadString('\n'); err != nil {
		return share{}, fmt.Errorf("a worker ended before it was ready: %q, %w", line, err)
	}
	ready()
	select {
	case <-begin:
	case <-cancelled:
		return share{}, context.Canceled
	}
	if _, err := io.WriteString(to, "begin\n"); err != nil {
		return share{}, err
	}
	var s share
	err := json.NewDecoder(answers).Decode(&s)
	return s, err
}

// worker is the other side of talk. It ends early when its input does.
func worker(in io.Reader, out io.Writer) error {
	lines := bufio.NewReader(in)
	text, err := lines.ReadBytes('\n')
	if err != nil {
		return err
	}
	var j job
	if err := json.Unmarshal(text, &j); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	begin := make(chan struct{})
	go func() {
		if _, err := lines.ReadString('\n'); err == nil {
			close(begin)
			_, _ = lines.ReadString('\n') // until the end
		}
		cancel()
	}()
	s, err := j.work(ctx, func() { fmt.Fprintln(out, "ready") }, begin)
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(s)
}
