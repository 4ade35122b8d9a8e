package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/holdfastlock/holdfast/internal/redistest"
	"github.com/holdfastlock/holdfast/torture/clockshim"
	"github.com/holdfastlock/holdfast/torture/history"
	"github.com/holdfastlock/holdfast/torture/overlay"
	"github.com/holdfastlock/holdfast/torture/worker"
)

// process is one worker, started again after each kill. Its methods are for one
// goroutine at a time.
type process struct {
	binary   string
	number   int
	settings worker.Settings
	clock    clockshim.File
	record   func(history.Event)
	died     func(error) // called when it ends without having been told to

	starts  int
	cmd     *exec.Cmd
	stdin   io.Closer
	said    bytes.Buffer  // on standard error
	ending  atomic.Bool   // it is to end
	exited  chan struct{} // closed when the history of cmd is read and it is gone
	failure error         // set before
}

// name is that of the incarnation that runs.
func (p *process) name() string { return fmt.Sprintf("%s.%d", workerName(p.number), p.starts) }

// workerName is the name of all incarnations of worker n.
func workerName(n int) string { return fmt.Sprintf("w%d", n) }

func (p *process) start() error {
	p.starts++
	p.settings.Process = p.name()
	settings, err := json.Marshal(p.settings)
	if err != nil {
		return err
	}
	cmd := exec.Command(p.binary, worker.Argument)
	cmd.Env = append(os.Environ(), "GORACE=halt_on_error=1", overlay.WallOffset+"="+p.clock.Path())
	cmd.SysProcAttr = redistest.OwnGroup()
	p.said.Reset()
	cmd.Stderr = &p.said
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("worker: %w", err)
	}
	p.cmd, p.stdin, p.exited, p.failure = cmd, stdin, make(chan struct{}), nil
	p.ending.Store(false)
	go p.follow(stdout)
	if _, err = stdin.Write(append(settings, '\n')); err != nil {
		p.close()
		return errors.Join(err, p.failure)
	}
	return nil
}

// follow reads the history of the worker until that is gone.
func (p *process) follow(stdout io.Reader) {
	defer close(p.exited)
	reading := history.Decode(stdout, p.record)
	waiting := p.cmd.Wait()
	if err := errors.Join(reading, waiting); err != nil {
		p.failure = fmt.Errorf("worker %s: %w\n%s", p.name(), err, bytes.TrimSpace(p.said.Bytes()))
	}
	if !p.ending.Load() {
		p.died(p.endedBefore())
	}
}

func (p *process) signal(signal syscall.Signal) error { return p.cmd.Process.Signal(signal) }

// kill ends the worker in the middle of whatever it does. It is an error if it
// has ended before by itself.
func (p *process) kill() error {
	select {
	case <-p.exited:
		return p.endedBefore()
	default:
		p.close()
		return nil
	}
}

func (p *process) endedBefore() error {
	if p.failure != nil {
		return p.failure
	}
	return fmt.Errorf("worker %s ended before it was told to", p.name())
}

// stop lets the worker end what it does, for limit at the most.
func (p *process) stop(limit time.Duration) error {
	p.ending.Store(true)
	_ = p.stdin.Close() // an error means that it is gone
	select {
	case <-p.exited:
		return p.failure
	case <-time.After(limit):
		return errors.Join(fmt.Errorf("worker %s has not ended within %v", p.name(), limit), p.kill())
	}
}

// close ends the worker if it still runs.
func (p *process) close() {
	if p.cmd == nil {
		return
	}
	p.ending.Store(true)
	select {
	case <-p.exited:
	default:
		redistest.KillGroup(p.cmd.Process)
		<-p.exited
	}
}
