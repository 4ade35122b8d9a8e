//go:build !linux

package supervise

import "syscall"

// dieWithParent does nothing: only Linux has a parent-death signal.
func dieWithParent(*syscall.SysProcAttr) {}

// adopt does nothing: orphans go to the first process of the system.
func adopt() bool { return false }

func ownProgram() (string, error) { return programByName() }

// strays returns none: only Linux lets us find those that left the group.
func strays(processGroup) []int { return nil }
