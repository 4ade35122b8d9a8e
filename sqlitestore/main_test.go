package sqlitestore

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/holdfastlock/holdfast/driver"
	"go.uber.org/goleak"
)

// roleVariable makes a copy of the test binary play a role instead of testing.
const roleVariable = "HOLDFAST_SQLITESTORE_ROLE"

var roles = map[string]func(args []string) error{
	"open":   openOnce,
	"hold":   holdUntilKilled,
	"worker": work,
}

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVariable); role != "" {
		if err := roles[role](os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// spawn starts a process in the role, and kills it at the end of the test if it
// still runs.
func spawn(t *testing.T, role string, args ...string) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), roleVariable+"="+role)
	output := new(bytes.Buffer)
	cmd.Stdout, cmd.Stderr = output, output
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	return cmd, output
}

func tempPath(t *testing.T) string { return filepath.Join(t.TempDir(), "locks.db") }

func mustOpen(t *testing.T, path string) *Store {
	t.Helper()
	return mustOpenAt(t, path, readNow)
}

func mustOpenAt(t *testing.T, path string, now func() moment) *Store {
	t.Helper()
	s, err := open(t.Context(), path, now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func request(name string, ttl time.Duration) driver.AcquireRequest {
	return driver.AcquireRequest{Name: name, Token: driver.NewToken("host/1"), TTL: ttl}
}

func tryAcquire(t *testing.T, s *Store, req driver.AcquireRequest) driver.AcquireResult {
	t.Helper()
	result, err := s.Acquire(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

func mustAcquire(t *testing.T, s *Store, req driver.AcquireRequest) int64 {
	t.Helper()
	result := tryAcquire(t, s, req)
	if !result.Granted {
		t.Fatalf("%s is held: %+v", req.Name, result.State)
	}
	return result.Fence
}

func mustRelease(t *testing.T, s *Store, req driver.AcquireRequest) {
	t.Helper()
	answer, err := s.Release(t.Context(), driver.ReleaseRequest{Name: req.Name, Token: req.Token})
	if err != nil || answer != driver.Mine {
		t.Fatalf("release of %s: %v, %v", req.Name, answer, err)
	}
}

// eventually waits for what must come true; the limit is no measure of speed.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for limit := time.Now().Add(30 * time.Second); !condition(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatal("never came true: " + what)
		}
	}
}
