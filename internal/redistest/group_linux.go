package redistest

import (
	"os"
	"syscall"
)

// OwnGroup puts a process in a process group of its own, so that Ctrl-C reaches
// this program alone, which ends the process when it has stopped using it; and
// has it killed when this program dies without having done so.
func OwnGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// KillGroup kills a process that was started with OwnGroup, and its children.
func KillGroup(process *os.Process) { syscall.Kill(-process.Pid, syscall.SIGKILL) }
