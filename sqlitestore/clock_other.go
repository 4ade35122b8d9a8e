//go:build !linux

package sqlitestore

import "time"

// readNow reads the wall clock, which stands in for the boot clock here.
func readNow() moment {
	wall := time.Now().UnixMicro()
	return moment{up: wall, wall: wall}
}
