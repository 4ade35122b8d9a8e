// Package redistest runs real Redis servers, and a network between them and
// the code under test that can be broken on demand. It is for tests only.
package redistest

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/rueidis"
)

const (
	// readyWithin bounds the start of a server on a busy machine.
	readyWithin = 20 * time.Second
	// pollEvery is how often a condition of a server is looked at.
	pollEvery = 5 * time.Millisecond
	// startAttempts is how many ports are tried: another process may take a
	// port between our look and the server's bind.
	startAttempts = 10
)

// Options says how a server is set up. The zero value is a server without
// persistence, password or memory limit.
type Options struct {
	// AppendOnly keeps the data over a restart: every write is on disk before
	// it is answered.
	AppendOnly bool
	// MaxMemory is a limit as redis.conf has it, such as "5mb".
	MaxMemory string
	// Password is that of the default user.
	Password string
	// Args are further arguments of redis-server, such as "--replicaof".
	Args []string
}

// Server is a redis-server process that ends with the test.
type Server struct {
	t       testing.TB
	options Options
	binary  string
	dir     string
	port    int
	process *exec.Cmd
	exited  chan struct{}
	admin   rueidis.Client
}

// Start runs a server on a free port of the loopback interface and returns
// when it answers. The program is $HOLDFAST_TEST_REDIS or else redis-server;
// without it the test is skipped, or fails where CI is set.
func Start(t testing.TB, options Options) *Server {
	t.Helper()
	s := &Server{t: t, options: options, binary: findBinary(t), dir: t.TempDir()}
	t.Cleanup(s.Kill)
	for range startAttempts {
		s.port = freePort(t)
		s.launch()
		if s.waitReady() {
			return s
		}
		s.Kill()
	}
	t.Fatalf("redis-server did not start on any of %d ports; its last words:\n%s", startAttempts, s.log())
	return nil
}

func findBinary(t testing.TB) string {
	t.Helper()
	name := os.Getenv("HOLDFAST_TEST_REDIS")
	if name == "" {
		name = "redis-server"
	}
	path, err := exec.LookPath(name)
	if err == nil {
		return path
	}
	const advice = "needs a Redis server: install redis-server, or set HOLDFAST_TEST_REDIS to one: %v"
	if os.Getenv("CI") != "" {
		t.Fatalf(advice, err)
	}
	t.Skipf(advice, err)
	return ""
}

// freePort picks below the range from which systems take the ports of outgoing
// connections, so that the port is still free after a restart.
func freePort(t testing.TB) int {
	t.Helper()
	const lowest, highest = 10000, 32000
	for range 1000 {
		port := lowest + rand.IntN(highest-lowest)
		listener, err := net.Listen("tcp", address(port))
		if err == nil {
			listener.Close()
			return port
		}
	}
	t.Fatal("no free port found")
	return 0
}

func address(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// Addr returns host:port.
func (s *Server) Addr() string { return address(s.port) }

// Port returns the port.
func (s *Server) Port() int { return s.port }

// URL returns the address as a redis:// URL, with the password if there is one.
func (s *Server) URL() string {
	if s.options.Password != "" {
		return "redis://:" + s.options.Password + "@" + s.Addr()
	}
	return "redis://" + s.Addr()
}

func (s *Server) launch() {
	s.t.Helper()
	log, err := os.OpenFile(s.logPath(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		s.t.Fatal(err)
	}
	defer log.Close()
	process := exec.Command(s.binary, s.arguments()...)
	process.Stdout, process.Stderr, process.Dir = log, log, s.dir
	if err := process.Start(); err != nil {
		s.t.Fatalf("redis-server: %v", err)
	}
	exited := make(chan struct{})
	s.process, s.exited = process, exited
	go func() {
		defer close(exited)
		process.Wait()
	}()
}

func (s *Server) arguments() []string {
	args := []string{
		"--port", strconv.Itoa(s.port), "--bind", "127.0.0.1", "--dir", s.dir,
		"--save", "", "--daemonize", "no", "--appendonly", "no",
	}
	if s.options.AppendOnly {
		args = append(args, "--appendonly", "yes", "--appendfsync", "always")
	}
	if s.options.MaxMemory != "" {
		args = append(args, "--maxmemory", s.options.MaxMemory)
	}
	if s.options.Password != "" {
		args = append(args, "--requirepass", s.options.Password)
	}
	return append(args, s.options.Args...)
}

// waitReady waits until this very process answers: something else may have the
// port. It says false when the process ended, as it does when it can't bind.
func (s *Server) waitReady() bool {
	s.t.Helper()
	pid := fmt.Sprintf("process_id:%d\r\n", s.process.Process.Pid)
	for deadline := time.Now().Add(readyWithin); time.Now().Before(deadline); {
		info, err := s.Do("INFO", "server").ToString()
		// INFO is answered while the data is still being loaded, DBSIZE is not.
		if err == nil && strings.Contains(info, pid) && s.Do("DBSIZE").Error() == nil {
			return true
		}
		s.closeAdmin()
		select {
		case <-s.exited:
			return false
		case <-time.After(pollEvery):
		}
	}
	s.t.Fatalf("redis-server does not answer; its last words:\n%s", s.log())
	return false
}

func (s *Server) logPath() string { return filepath.Join(s.dir, "server.log") }

func (s *Server) log() string {
	text, _ := os.ReadFile(s.logPath())
	return string(bytes.TrimSpace(text))
}

// Kill ends the server by SIGKILL and waits until it is gone.
func (s *Server) Kill() { s.end(syscall.SIGKILL) }

func (s *Server) end(signal os.Signal) {
	s.closeAdmin()
	if s.process == nil {
		return
	}
	s.process.Process.Signal(syscall.SIGCONT)
	s.process.Process.Signal(signal)
	<-s.exited
	s.process = nil
}

// Restart ends the server in an orderly way, if it runs, and starts it again on
// the same port. Data is kept if asked for and if Options.AppendOnly was set.
func (s *Server) Restart(keepData bool) {
	s.t.Helper()
	s.end(syscall.SIGTERM)
	if !keepData {
		s.removeData()
	}
	for range startAttempts {
		s.launch()
		if s.waitReady() {
			return
		}
		s.Kill()
	}
	s.t.Fatalf("redis-server did not start again; its last words:\n%s", s.log())
}

func (s *Server) removeData() {
	s.t.Helper()
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, entry := range entries {
		if err := os.RemoveAll(filepath.Join(s.dir, entry.Name())); err != nil {
			s.t.Fatal(err)
		}
	}
}

// Pause stops the server as a frozen machine would be: its connections stay
// open and nothing answers.
func (s *Server) Pause() { s.process.Process.Signal(syscall.SIGSTOP) }

// Resume lets a paused server go on.
func (s *Server) Resume() { s.process.Process.Signal(syscall.SIGCONT) }

// Do sends one command over a connection of its own.
func (s *Server) Do(args ...string) rueidis.RedisResult {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if s.admin == nil {
		client, err := s.connect()
		if err != nil {
			return rueidis.NewErrorResult(err)
		}
		s.admin = client
	}
	return s.admin.Do(ctx, s.admin.B().Arbitrary(args...).Build())
}

// connect asks for no more than a plain connection, so that Do sends nothing
// but what it was given.
func (s *Server) connect() (rueidis.Client, error) {
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress:        []string{s.Addr()},
		Password:           s.options.Password,
		ForceSingleClient:  true,
		DisableCache:       true,
		DisableRetry:       true,
		PipelineMultiplex:  -1,
		ClientSetInfo:      rueidis.DisableClientSetInfo,
		ReadBufferEachConn: 1 << 14, WriteBufferEachConn: 1 << 14,
	})
	if err != nil && client != nil { // rueidis returns both in this mode
		client.Close()
	}
	return client, err
}

func (s *Server) closeAdmin() {
	if s.admin != nil {
		s.admin.Close()
		s.admin = nil
	}
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
