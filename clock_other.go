//go:build !linux

package holdfast

import "time"

// readBoottime reports that there is no clock that can be read without cgo and
// goes on during suspension.
func readBoottime() (time.Duration, bool) { return 0, false }

func clockIsFake() bool { return false }
