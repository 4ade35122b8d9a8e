//go:build !linux

package redistest

import (
	"os"
	"syscall"
)

// OwnGroup leaves a process in this program's group: Ctrl-C ends both, where
// nothing else would end the process.
func OwnGroup() *syscall.SysProcAttr { return nil }

// KillGroup kills a process that was started with OwnGroup.
func KillGroup(process *os.Process) { process.Kill() }
