package supervise

import (
	"errors"
	"os/exec"
	"runtime"
	"syscall"
)

// child is a started command.
type child struct {
	group    processGroup
	terminal terminal
	// exited receives the exit code when the command has ended.
	exited <-chan int
}

// start starts the command as the leader of a process group of its own.
func start(j Job) (child, error) {
	tty := findTerminal(j.Stdin, j.Stdout)
	cmd := &exec.Cmd{
		Path: j.Command.path, Args: j.Command.args, Env: j.Env,
		Stdin: j.Stdin, Stdout: j.Stdout, Stderr: j.Stderr,
		SysProcAttr: &syscall.SysProcAttr{
			Setpgid: true, Foreground: tty.ours, Ctty: tty.fd,
		},
	}
	dieWithParent(cmd.SysProcAttr)
	exited, err := startOnOwnThread(cmd)
	if err != nil {
		return child{}, err
	}
	tty.lend()
	return child{processGroup(cmd.Process.Pid), tty, exited}, nil
}

// startOnOwnThread starts the command from a thread that lives until it has
// ended: a parent-death signal is sent when the forking thread ends.
func startOnOwnThread(cmd *exec.Cmd) (<-chan int, error) {
	started := make(chan error)
	exited := make(chan int, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			exited <- exitCode(cmd.Wait())
		}
	}()
	return exited, <-started
}

// exitCode reads what exec.Cmd.Wait returned: the command's exit code, or
// 128 + n if signal n ended it.
func exitCode(err error) int {
	if err == nil {
		return 0
	}
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return CodeNotExecutable // it can't be said how it ended
	}
	status, _ := exit.Sys().(syscall.WaitStatus)
	if status.Signaled() {
		return SignalCode(status.Signal())
	}
	return status.ExitStatus()
}

// processGroup is a process group by its number.
type processGroup int

// signal sends a signal to all processes of the group. That the group is gone
// is no error, and where permission is missing nothing else could be done.
func (g processGroup) signal(sig syscall.Signal) { _ = syscall.Kill(-int(g), sig) }

func (g processGroup) alive() bool {
	return !errors.Is(syscall.Kill(-int(g), 0), syscall.ESRCH)
}
