//go:build !linux && !darwin

package supervise

import "time"

// sharedNow reads the wall clock, which can be set.
func sharedNow() moment { return moment(time.Now().UnixNano()) }
