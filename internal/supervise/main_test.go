package supervise

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain makes the test binary serve as the supervisor, too.
func TestMain(m *testing.M) {
	if Asked(os.Args) {
		os.Exit(Main(os.Args))
	}
	// A supervisor built with -race ends without a pause of a second.
	if err := os.Setenv("GORACE", "atexit_sleep_ms=0"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}
