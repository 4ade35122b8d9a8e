package clockshim

import (
	"fmt"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfastlock/holdfast/internal/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// near is by how much two looks at the same clock may differ on a busy machine.
const near = 30 * time.Second

// stepped starts a server whose clock follows the file.
func stepped(t *testing.T) (*redistest.Server, File) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("the shim is for Linux")
	}
	dir := t.TempDir()
	library, err := Build(dir)
	if err != nil {
		t.Fatal(err)
	}
	clock, err := Create(filepath.Join(dir, "clock"))
	if err != nil {
		t.Fatal(err)
	}
	return redistest.Start(t, redistest.Options{Env: clock.Env(library)}), clock
}

func TestTheClockOfARunningServerFollowsTheFile(t *testing.T) {
	server, clock := stepped(t)
	for _, offset := range []time.Duration{0, time.Hour, -time.Hour, 0} {
		if err := clock.Set(offset); err != nil {
			t.Fatal(err)
		}
		eventually(t, fmt.Sprintf("the server's clock is off by %v", offset), func() bool {
			return (time.Until(serverTime(t, server)) - offset).Abs() < near
		})
	}
}

func TestALeaseEndsWhenTheServersClockIsSetForward(t *testing.T) {
	server, clock := stepped(t)
	server.Do("SET", "k", "v", "PX", "3600000")
	if err := clock.Set(2 * time.Hour); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the key has ended", func() bool {
		n, err := server.Do("EXISTS", "k").AsInt64()
		return n == 0 && err == nil
	})
}

// eventually waits: Valkey 9.1 counts by the processor's clock, and looks at the
// system's only now and then.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(15 * time.Second); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not true: %s", what)
		}
	}
}

func serverTime(t *testing.T, server *redistest.Server) time.Time {
	t.Helper()
	parts, err := server.Do("TIME").AsStrSlice()
	if err != nil {
		t.Fatal(err)
	}
	seconds, err := strconv.ParseInt(parts[0], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return time.Unix(seconds, 0)
}
