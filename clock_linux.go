package holdfast

import (
	"syscall"
	"time"
	"unsafe"
)

// Clock numbers of clock_gettime(2).
const (
	clockRealtime = 0
	clockBoottime = 7
)

// readBoottime reads CLOCK_BOOTTIME and says whether the system has it.
func readBoottime() (time.Duration, bool) { return readSystem(clockBoottime) }

// clockIsFake says whether time.Now is far from the system's clock. Both read
// the same source, so that it happens only inside a synctest bubble, whose
// clock begins in the year 2000.
func clockIsFake() bool {
	const far = 24 * time.Hour
	system, ok := readSystem(clockRealtime)
	return ok && (time.Duration(time.Now().UnixNano())-system).Abs() > far
}

// readSystem calls the kernel directly, below the clock that a bubble replaces.
func readSystem(id uintptr) (time.Duration, bool) {
	var ts syscall.Timespec
	_, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, id, uintptr(unsafe.Pointer(&ts)), 0)
	return time.Duration(ts.Nano()), errno == 0
}
