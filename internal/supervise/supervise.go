// Package supervise runs one command under a lease, and stops it before the
// lease can end, even when holdfast itself is frozen or killed.
//
// There are two processes beside the command. Holdfast keeps the lease and
// calls Job.Run. The supervisor is the same program started again (Main), in a
// process group of its own, deaf to the signals of a terminal and of people; it
// starts the command, as leader of a second group, and decides alone (plan)
// when the command must stop: TERM, a grace, KILL. It trusts the deadline that
// it was told last, which the lease's own clock rule has already shortened.
//
// They talk over two pipes, one JSON value a line. Holdfast sends orders: first
// how to run the command, then each new deadline, the loss of the lease,
// signals to pass on, and leave to go on after a stop. The end of that pipe
// means that holdfast has died, which is a loss: nobody renews the lease any
// more. The supervisor sends reports: started or why not, stopped, ended. The
// end of that pipe without the last one means that the supervisor has died; the
// command, which has a parent-death signal, died with it.
//
// A deadline crosses the pipe as a moment of a clock that both processes read:
// CLOCK_BOOTTIME on Linux, which goes on while the machine sleeps,
// CLOCK_MONOTONIC on macOS, elsewhere the wall clock.
//
// On Linux the supervisor is a subreaper: descendants of the command that leave
// its group (setsid) stay below the supervisor and are found and stopped too.
// Elsewhere only the group is, and there is no parent-death signal.
package supervise

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// Lease is what must be known of the lease that the command runs under.
type Lease interface {
	// Context ends when the lease can no longer be trusted.
	Context() context.Context
	// Deadline is the moment until which the lease is trusted; it moves with
	// each renewal.
	Deadline() time.Time
	// Confirm asks the store whether the lease still holds, and renews it.
	Confirm(ctx context.Context) error
}

// Job is a command to run once.
type Job struct {
	Command Command
	// Env is the whole environment of the command.
	Env []string
	// Stdin, Stdout and Stderr become the command's own, untouched.
	Stdin, Stdout, Stderr *os.File
	// Signals are passed on to the process group; a second INT or TERM becomes
	// KILL.
	Signals <-chan os.Signal
	// Renewed receives when the deadline of the lease has moved.
	Renewed <-chan struct{}
	Rules
}

// Rules say when a command is stopped.
type Rules struct {
	// Grace is the time between TERM and KILL.
	Grace time.Duration
	// Slack is the time between KILL and the deadline of the lease.
	Slack time.Duration
	// Limit is how long the command may run; 0 means that there is none.
	Limit   time.Duration
	OnLost  OnLost
	Orphans Orphans
}

// OnLost is what is done to the command when the lease is lost or can't be kept.
type OnLost int

const (
	// LostKill sends TERM and, before the lease can end, KILL.
	LostKill OnLost = iota
	// LostTerm sends TERM only: the command may outlive the lease.
	LostTerm
	// LostWarn does nothing.
	LostWarn
)

// Orphans is what is done with processes of the command that outlive it.
type Orphans int

const (
	// OrphansRelease leaves them alone.
	OrphansRelease Orphans = iota
	// OrphansWait waits for their end.
	OrphansWait
	// OrphansKill sends TERM, and KILL after the grace.
	OrphansKill
)

// Outcome says how a command ended.
type Outcome struct {
	// Code is the exit code of the command, or 128 + n if signal n ended it or
	// came before it was started.
	Code int
	// Lost says that the lease could not be kept until the command had ended.
	Lost bool
	// NotStarted says that a signal or the loss of the lease came first.
	NotStarted bool
	// Late says that the command was stopped because of the limit.
	Late bool
	// Left says that processes of the command are still running.
	Left bool
	// Stopped says that a TERM or INT was passed on, or came too late for that.
	Stopped bool
	// Unwatched says that the supervisor was killed, and the command with it.
	Unwatched bool
}

// ErrSystem is matched by an error of Run that says nothing of the command: the
// system did not let us start a process.
var ErrSystem = errors.New("the system can't start a process")

// Run starts the command and returns when it has ended. An error means that it
// could not be started; see ExitCode and ErrSystem.
func (j Job) Run(lease Lease) (Outcome, error) {
	select {
	case sig := <-j.Signals:
		return Outcome{Code: SignalCode(sig), NotStarted: true}, nil
	default:
	}
	s, err := launch(j)
	if err != nil {
		return Outcome{}, fmt.Errorf("%w: %w", ErrSystem, err)
	}
	defer s.close()
	c := &conversation{supervisor: s, job: j, lease: lease, tty: findTerminal(j.Stdin, j.Stdout)}
	return c.run()
}

// SignalCode returns the exit code that reports a signal: 128 + its number.
func SignalCode(sig os.Signal) int {
	n, _ := sig.(syscall.Signal)
	return 128 + int(n)
}
