package supervise

import "syscall"

// dieWithParent makes the kernel kill the command when we die, even of KILL.
// It does not reach the command's own children.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }
