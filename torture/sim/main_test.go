package sim

import (
	"runtime"
	"testing"

	"go.uber.org/goleak"
)

// With more than one goroutine at a time, a seed would not say what happens.
func TestMain(m *testing.M) {
	runtime.GOMAXPROCS(1)
	goleak.VerifyTestMain(m)
}
