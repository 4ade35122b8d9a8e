package supervise

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// dieWithParent makes the kernel kill the command when the thread that started
// it ends, even by KILL. It does not reach the command's own children.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }

// adopt makes us the parent of all descendants whose own parent has ended.
func adopt() bool {
	return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == nil
}

// ownProgram returns a path of the running program that stays right when its
// file is replaced.
func ownProgram() (string, error) {
	const self = "/proc/self/exe"
	if _, err := os.Stat(self); err == nil {
		return self, nil
	}
	return programByName()
}
