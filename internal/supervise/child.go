package supervise

import (
	"errors"
	"os"
	"syscall"
	"time"
)

// processGroup is a process group by its number, which is that of its leader.
type processGroup int

// startChild starts the command as the leader of a process group of its own,
// with our files and environment. The thread that calls it must live as long
// as the command may: see dieWithParent.
func startChild(path string, args []string, foreground bool) (processGroup, error) {
	attr := &syscall.SysProcAttr{Setpgid: true, Foreground: foreground}
	if foreground {
		attr.Ctty = int(os.Stdin.Fd())
	}
	dieWithParent(attr)
	pid, err := syscall.ForkExec(path, args, &syscall.ProcAttr{
		Env:   os.Environ(),
		Files: []uintptr{0, 1, 2},
		Sys:   attr,
	})
	return processGroup(pid), err
}

// signal sends a signal to all processes of the group. That the group is gone
// is no error, and where permission is missing nothing else could be done.
func (g processGroup) signal(sig syscall.Signal) { _ = syscall.Kill(-int(g), sig) }

func (g processGroup) signalAll(sig syscall.Signal) {
	g.signal(sig)
	for _, pid := range strays(g) {
		_ = syscall.Kill(pid, sig)
	}
}

func (g processGroup) alive() bool {
	return !errors.Is(syscall.Kill(-int(g), 0), syscall.ESRCH)
}

// reap waits for all our children, those adopted too, and tells what becomes of
// the command.
func (g processGroup) reap(adopting bool, changes chan<- change) {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WUNTRACED, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil: // ECHILD: no child is left
			for !adopting && g.alive() {
				time.Sleep(groupPoll)
			}
			changes <- change{gone: true}
			return
		case pid != int(g):
		case status.Stopped():
			changes <- change{stopped: true}
		default:
			changes <- change{ended: true, code: exitCode(status)}
		}
	}
}

// groupPoll is how often a group whose processes are not ours to wait for is
// looked at.
const groupPoll = 20 * time.Millisecond

// exitCode returns the command's exit code, or 128 + n if signal n ended it.
func exitCode(status syscall.WaitStatus) int {
	if status.Signaled() {
		return SignalCode(status.Signal())
	}
	return status.ExitStatus()
}
