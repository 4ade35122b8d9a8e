package sqlitestore

import (
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// bootID names this run of CLOCK_BOOTTIME: the kernel's boot id, and the time
// namespace, which may shift the clock.
var bootID = sync.OnceValue(func() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "" // no /proc here: readNow then uses the wall clock alone
	}
	namespace, _ := os.Readlink("/proc/self/ns/time") // not there before Linux 5.6
	return strings.TrimSpace(string(id)) + namespace
})

// readNow reads both clocks.
func readNow() moment {
	wall := time.Now().UnixMicro()
	var ts unix.Timespec
	if bootID() == "" || unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts) != nil {
		return moment{up: wall, wall: wall}
	}
	return moment{boot: bootID(), up: ts.Nano() / 1000, wall: wall}
}
