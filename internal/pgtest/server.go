// Package pgtest runs real Postgres servers, and PgBouncer before them. It is
// for tests only, and for the harness in torture. To make a cluster takes
// seconds, so tests that do no harm to their server share one, and each has a
// database of its own there.
package pgtest

import (
	"crypto/rand"
	"os"
	"strings"
	"sync"
	"testing"
)

// Server is a Process that ends with the test, and fails it when it does not
// do what it is told.
type Server struct {
	*Process
	t testing.TB
}

// Start makes and runs a server for this test alone. Without the programs, see
// FindBinaries, the test is skipped, or fails where CI is set.
func Start(t testing.TB, options Options) *Server {
	t.Helper()
	process, err := Launch(binaries(t), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(process.Remove)
	return &Server{Process: process, t: t}
}

var shared struct {
	sync.Mutex
	process *Process
}

// Shared returns the server of all tests of this package, and starts it if need
// be. It is ended by Main.
func Shared(t testing.TB) *Server {
	t.Helper()
	bin := binaries(t)
	shared.Lock()
	defer shared.Unlock()
	if shared.process == nil {
		process, err := Launch(bin, Options{})
		if err != nil {
			t.Fatal(err)
		}
		shared.process = process
	}
	return &Server{Process: shared.process, t: t}
}

// Main runs the tests of a package that uses Shared. It is for
// goleak.VerifyTestMain or testscript.Main in place of the *testing.M.
type Main struct{ M *testing.M }

// Run runs the tests and ends the shared server.
func (m Main) Run() int {
	code := m.M.Run()
	shared.Lock()
	defer shared.Unlock()
	if shared.process != nil {
		shared.process.Remove()
		shared.process = nil
	}
	return code
}

// Restart is Process.Restart.
func (s *Server) Restart() {
	s.t.Helper()
	if err := s.Process.Restart(); err != nil {
		s.t.Fatal(err)
	}
}

// Exec is Process.Exec.
func (s *Server) Exec(database, sql string) {
	s.t.Helper()
	if err := s.Process.Exec(database, sql); err != nil {
		s.t.Fatal(err)
	}
}

// Value is Process.Value.
func (s *Server) Value(database, sql string) string {
	s.t.Helper()
	value, err := s.Process.Value(database, sql)
	if err != nil {
		s.t.Fatal(err)
	}
	return value
}

// Database makes a database for this test and returns its name.
func (s *Server) Database() string {
	s.t.Helper()
	name := "test_" + strings.ToLower(rand.Text())
	s.Exec(User, "CREATE DATABASE "+name)
	s.t.Cleanup(func() {
		// Left to Remove if the server does not run any more.
		_ = s.Process.Exec(User, "DROP DATABASE "+name+" WITH (FORCE)")
	})
	return name
}

func binaries(t testing.TB) string {
	t.Helper()
	bin, err := FindBinaries()
	skip(t, err)
	return bin
}

// skip skips the test because of what is not installed, or fails it where CI is
// set.
func skip(t testing.TB, err error) {
	t.Helper()
	switch {
	case err != nil && os.Getenv("CI") == "":
		t.Skip(err)
	case err != nil:
		t.Fatal(err)
	}
}
