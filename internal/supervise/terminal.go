package supervise

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// terminal is the one that the command is started from. A command in a process
// group of its own would be stopped when it reads the terminal, so it is made
// the foreground group while it runs; Ctrl-C then goes to it alone.
type terminal struct {
	fd     int
	exists bool
	// piped says that only the standard input is the terminal: we are in a
	// pipeline, and another part of it may need to stay in the foreground.
	piped bool
}

func findTerminal(in, out *os.File) terminal {
	if in == nil || !isTerminal(int(in.Fd())) {
		return terminal{}
	}
	piped := out == nil || !isTerminal(int(out.Fd()))
	return terminal{int(in.Fd()), true, piped}
}

func isTerminal(fd int) bool {
	_, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP)
	return err == nil
}

// lend says whether our process group is in the foreground, which the command
// may then be. From the background, messages of our own must not stop us.
func (t terminal) lend() bool {
	signal.Ignore(syscall.SIGTTOU)
	return t.mayLend()
}

func (t terminal) mayLend() bool { return !t.piped && t.front() == unix.Getpgrp() }

// lendTo puts the group in the foreground if ours is.
func (t terminal) lendTo(group processGroup) {
	if t.exists && group != 0 && t.mayLend() {
		t.setFront(int(group))
	}
}

// takeBack puts our process group in the foreground again, if the group is or
// if always is set.
func (t terminal) takeBack(group processGroup, always bool) {
	if always || group != 0 && t.front() == int(group) {
		t.setFront(unix.Getpgrp())
	}
	signal.Reset(syscall.SIGTTOU)
}

// front returns the foreground group, or 0 if the terminal is gone.
func (t terminal) front() int {
	front, err := unix.IoctlGetInt(t.fd, unix.TIOCGPGRP)
	if err != nil {
		return 0
	}
	return front
}

// setFront fails when the terminal is gone, and then nobody needs it.
func (t terminal) setFront(group int) {
	_ = unix.IoctlSetPointerInt(t.fd, unix.TIOCSPGRP, group)
}
