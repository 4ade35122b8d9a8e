package supervise

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
)

// strays returns our living descendants outside of the group. They exist below
// us because we adopt those whose own parent has ended. None are found where
// /proc is missing or shows the processes of another PID namespace.
func strays(group processGroup) []int {
	self := os.Getpid()
	if link, _ := os.Readlink("/proc/self"); link != strconv.Itoa(self) {
		return nil
	}
	entries, _ := os.ReadDir("/proc")
	all := make(map[int]status)
	for _, entry := range entries {
		if pid, err := strconv.Atoi(entry.Name()); err == nil {
			all[pid] = readStatus(pid)
		}
	}
	var found []int
	for pid, s := range all {
		if s.alive && s.group != group && below(all, pid, self) {
			found = append(found, pid)
		}
	}
	return found
}

// status is one line of the process table.
type status struct {
	parent int
	group  processGroup
	alive  bool
}

// readStatus reads /proc/PID/stat. What has ended meanwhile is not alive.
func readStatus(pid int) status {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	// The name of the program, in parentheses, may have any character in it.
	_, text, _ = bytes.Cut(text[max(0, bytes.LastIndexByte(text, ')')):], []byte(") "))
	var s status
	var state string
	n, _ := fmt.Sscan(string(text), &state, &s.parent, &s.group)
	s.alive = n == 3 && state != "Z" && state != "X"
	return s
}

// below says whether a process descends from the ancestor.
func below(all map[int]status, pid, ancestor int) bool {
	for range all { // a table read while it changes might have a circle
		pid = all[pid].parent
		if pid == ancestor || pid == 0 {
			break
		}
	}
	return pid == ancestor
}
