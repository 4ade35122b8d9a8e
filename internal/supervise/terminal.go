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
	fd int
	// ours says that our process group is in the foreground of the terminal.
	ours bool
}

// findTerminal looks for a terminal at both ends: with only one of them we are
// in a pipeline, and another part of it may need to stay in the foreground.
func findTerminal(in, out *os.File) terminal {
	if in == nil || out == nil {
		return terminal{}
	}
	fd := int(in.Fd())
	front, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP)
	if err != nil || front != unix.Getpgrp() {
		return terminal{}
	}
	if _, err := unix.IoctlGetInt(int(out.Fd()), unix.TIOCGPGRP); err != nil {
		return terminal{}
	}
	return terminal{fd, true}
}

// lend is called once the command is in the foreground: from the background,
// messages of our own must not stop us.
func (t terminal) lend() {
	if t.ours {
		signal.Ignore(syscall.SIGTTOU)
	}
}

// takeBack puts our process group in the foreground again.
func (t terminal) takeBack() {
	if t.ours {
		// It fails when the terminal is gone, and then nobody needs it.
		_ = unix.IoctlSetPointerInt(t.fd, unix.TIOCSPGRP, unix.Getpgrp())
		signal.Reset(syscall.SIGTTOU)
	}
}
