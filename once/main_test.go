package once

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// roleVariable makes a copy of the test binary play a role instead of testing.
const roleVariable = "HOLDFAST_ONCE_ROLE"

func TestMain(m *testing.M) {
	role, found := roles[os.Getenv(roleVariable)]
	if !found {
		goleak.VerifyTestMain(m)
		return
	}
	if err := role(os.Args[1:]); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	os.Exit(0)
}
