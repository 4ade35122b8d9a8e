// Package supervise runs one command under a lease: it passes signals on, and
// stops the command's process group before the lease can end.
//
// It trusts the lease's deadline, which the lease's own clock rule has already
// shortened, and stops the group ahead of it: TERM, a grace, KILL. Processes
// that leave the group (setsid) escape it.
package supervise

import (
	"context"
	"os"
	"syscall"
	"time"
)

// Lease is what must be known of the lease that the command runs under. Both
// methods are called from one goroutine.
type Lease interface {
	// Context ends when the lease can no longer be trusted.
	Context() context.Context
	// Deadline is the moment until which the lease is trusted; it moves with
	// each renewal.
	Deadline() time.Time
}

// Job is a command to run once.
type Job struct {
	Command Command
	// Env is the whole environment of the command.
	Env []string
	// Stdin, Stdout and Stderr become the command's own, untouched.
	Stdin, Stdout, Stderr *os.File
	// Grace is the time between TERM and KILL.
	Grace time.Duration
	// Slack is the time between KILL and the deadline of the lease.
	Slack time.Duration
	// Signals are passed on to the process group; a second INT or TERM becomes
	// KILL.
	Signals <-chan os.Signal
}

// Outcome says how a command ended.
type Outcome struct {
	// Code is the exit code of the command, or 128 + n if signal n ended it or
	// came before it was started.
	Code int
	// Lost says that the lease could not be kept until the command had ended.
	Lost bool
}

// Run starts the command and returns when it has ended. An error means that it
// could not be started; see ExitCode.
func (j Job) Run(lease Lease) (Outcome, error) {
	select {
	case sig := <-j.Signals:
		return Outcome{Code: SignalCode(sig)}, nil
	default:
	}
	child, err := start(j)
	if err != nil {
		return Outcome{}, err
	}
	defer child.terminal.takeBack()
	w := &watch{
		group:   child.group,
		exited:  child.exited,
		signals: j.Signals,
		plan:    plan{grace: j.Grace, slack: j.Slack},
	}
	return w.run(lease), nil
}

// SignalCode returns the exit code that reports a signal: 128 + its number.
func SignalCode(sig os.Signal) int {
	n, _ := sig.(syscall.Signal)
	return 128 + int(n)
}
