// Package redistest runs real Redis servers, and a network between them and
// the code under test that can be broken on demand. It is for tests only, and
// for the harness in torture.
package redistest

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// Server is a Process that ends with the test, and fails it when it does not
// do what it is told.
type Server struct {
	*Process
	t testing.TB
}

// Start runs a server on a free port of the loopback interface and returns
// when it answers. Without a server program, see FindBinary, the test is skipped,
// or fails where CI is set.
func Start(t testing.TB, options Options) *Server {
	t.Helper()
	process, err := Launch(Binary(t), t.TempDir(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(process.Kill)
	return &Server{Process: process, t: t}
}

// Restart is Process.Restart.
func (s *Server) Restart(keepData bool) {
	s.t.Helper()
	if err := s.Process.Restart(keepData); err != nil {
		s.t.Fatal(err)
	}
}

// StartSentinels is LaunchSentinels; all ends with the test.
func StartSentinels(t testing.TB, options SentinelOptions) *Sentinels {
	t.Helper()
	sentinels, err := LaunchSentinels(Binary(t), t.TempDir(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sentinels.Kill)
	return sentinels
}

// StartCluster is LaunchCluster; all ends with the test.
func StartCluster(t testing.TB, options ClusterOptions) *Cluster {
	t.Helper()
	cluster, err := LaunchCluster(Binary(t), t.TempDir(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Kill)
	return cluster
}

// Certificates is NewAuthority in a folder of the test.
func Certificates(t testing.TB) *Authority {
	t.Helper()
	authority, err := NewAuthority(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return authority
}

// SocketPath returns a path for a unix socket that ends with the test: that of
// t.TempDir may be too long for one.
func SocketPath(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return filepath.Join(dir, "s")
}

// CommandCounts returns how often the server has run each command, in lower
// case, since it started. A command that a script runs is counted too.
func (s *Server) CommandCounts() map[string]int {
	s.t.Helper()
	info, err := s.Do("INFO", "commandstats").ToString()
	if err != nil {
		s.t.Fatal(err)
	}
	counts := make(map[string]int)
	for line := range strings.Lines(info) {
		name, rest, found := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":calls=")
		if !found {
			continue
		}
		number, _, _ := strings.Cut(rest, ",")
		counts[name], _ = strconv.Atoi(number)
	}
	return counts
}

// Binary returns what FindBinary finds. If that is nothing the test is skipped,
// or fails where CI is set.
func Binary(t testing.TB) string {
	t.Helper()
	binary, err := FindBinary()
	switch {
	case err != nil && os.Getenv("CI") == "":
		t.Skip(err)
	case err != nil:
		t.Fatal(err)
	}
	return binary
}
