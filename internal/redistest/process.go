package redistest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
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
	// commandLimit is how long Do waits for an answer.
	commandLimit = 5 * time.Second
	// configFile and nodesFile, in a server's folder, are what it keeps of itself
	// beside its data: what Options.Config was at first, and its place in a
	// cluster.
	configFile, nodesFile = "redis.conf", "nodes.conf"
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
	// Config is the text of a configuration file of the server's own, which it
	// may rewrite: what it has learnt is kept over a restart, also one without
	// its data.
	Config string
	// TLS has the port speak TLS alone.
	TLS *Authority
	// ClientCertificates are required of those who connect; needs TLS.
	ClientCertificates bool
	// Args are further arguments of redis-server, such as "--replicaof".
	Args []string
	// Env are further variables of its environment, as NAME=value.
	Env []string
}

// Process is a redis-server. Its methods other than Do are for one goroutine
// at a time.
type Process struct {
	options Options
	binary  string
	dir     string
	port    int
	process *exec.Cmd
	exited  chan struct{}
	// sentinel says that it is one: it runs a file alone, and has no data.
	sentinel bool

	mu    sync.Mutex
	admin rueidis.Client
}

// FindBinary returns the path of $HOLDFAST_TEST_REDIS or else redis-server.
func FindBinary() (string, error) {
	name := os.Getenv("HOLDFAST_TEST_REDIS")
	if name == "" {
		name = "redis-server"
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("needs a Redis server: install redis-server, or set HOLDFAST_TEST_REDIS to one: %w", err)
	}
	return path, nil
}

// Launch runs the server binary on a free port of the loopback interface, with
// its data in dir, and returns when it answers. The caller ends it by Kill; it
// also ends with this process where the system can do that.
func Launch(binary, dir string, options Options) (*Process, error) {
	return launch(&Process{options: options, binary: binary, dir: dir})
}

func launch(s *Process) (*Process, error) {
	for range startAttempts {
		var err error
		if s.port, err = FreePort(); err != nil {
			return nil, err
		}
		ready, err := s.start()
		if ready || err != nil {
			return s, err
		}
	}
	return nil, fmt.Errorf("redis-server did not start on any of %d ports; its last words:\n%s", startAttempts, s.log())
}

// FreePort picks below the range from which systems take the ports of outgoing
// connections, so that the port is still free after a restart.
func FreePort() (int, error) {
	const lowest, highest = 10000, 32000
	for range 1000 {
		port := lowest + rand.IntN(highest-lowest)
		listener, err := net.Listen("tcp", address(port))
		if err == nil {
			listener.Close()
			return port, nil
		}
	}
	return 0, errors.New("no free port found")
}

func address(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// Addr returns host:port.
func (s *Process) Addr() string { return address(s.port) }

// Port returns the port.
func (s *Process) Port() int { return s.port }

// URL returns the address as a redis:// or rediss:// URL, with the password if there is one.
func (s *Process) URL() string {
	scheme, user := "redis://", ""
	if s.options.TLS != nil {
		scheme = "rediss://"
	}
	if s.options.Password != "" {
		user = ":" + s.options.Password + "@"
	}
	return scheme + user + s.Addr()
}

// start runs the server and says whether it answers; if it ended instead, as it
// does when it can't bind, that may be tried again.
func (s *Process) start() (ready bool, err error) {
	if err := s.run(); err != nil {
		return false, err
	}
	if ready, err = s.waitReady(); !ready {
		s.Kill()
	}
	return ready, err
}

func (s *Process) run() error {
	if err := s.writeConfig(); err != nil {
		return err
	}
	log, err := os.OpenFile(s.logPath(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	process := exec.Command(s.binary, s.arguments()...)
	process.Stdout, process.Stderr, process.Dir = log, log, s.dir
	process.Env = append(os.Environ(), s.options.Env...)
	process.SysProcAttr = OwnGroup()
	if err := process.Start(); err != nil {
		return fmt.Errorf("redis-server: %w", err)
	}
	exited := make(chan struct{})
	s.process, s.exited = process, exited
	go func() {
		defer close(exited)
		process.Wait()
	}()
	return nil
}

// writeConfig writes the configuration file, unless the server has one.
func (s *Process) writeConfig() error {
	path := filepath.Join(s.dir, configFile)
	if _, err := os.Stat(path); err == nil || s.options.Config == "" {
		return nil
	}
	return os.WriteFile(path, []byte(s.options.Config), 0o600)
}

func (s *Process) arguments() []string {
	var args []string
	if s.options.Config != "" {
		args = append(args, configFile)
	}
	if s.sentinel {
		args = append(args, "--sentinel")
	}
	args = append(args, s.listening()...)
	if s.sentinel {
		return append(args, s.options.Args...)
	}
	args = append(args, "--save", "", "--appendonly", "no")
	if s.options.AppendOnly {
		args = append(args, "--appendonly", "yes", "--appendfsync", "always")
	}
	if s.options.MaxMemory != "" {
		args = append(args, "--maxmemory", s.options.MaxMemory)
	}
	if s.options.Password != "" {
		args = append(args, "--requirepass", s.options.Password, "--masterauth", s.options.Password)
	}
	return append(args, s.options.Args...)
}

// listening are the arguments that say where the server is to be found.
func (s *Process) listening() []string {
	port := strconv.Itoa(s.port)
	args := []string{"--bind", "127.0.0.1", "--dir", s.dir, "--daemonize", "no"}
	if s.options.TLS == nil {
		return append(args, "--port", port)
	}
	clients := "no"
	if s.options.ClientCertificates {
		clients = "yes"
	}
	certificate := s.options.TLS.Server()
	return append(args, "--port", "0", "--tls-port", port, "--tls-auth-clients", clients,
		"--tls-cert-file", certificate.Cert, "--tls-key-file", certificate.Key, "--tls-ca-cert-file", s.options.TLS.CA())
}

// waitReady waits until this very process answers: something else may have the
// port. It says false when the process ended.
func (s *Process) waitReady() (bool, error) {
	pid := fmt.Sprintf("process_id:%d\r\n", s.process.Process.Pid)
	for deadline := time.Now().Add(readyWithin); time.Now().Before(deadline); {
		info, err := s.Do("INFO", "server").ToString()
		// INFO is answered while the data is still being loaded, DBSIZE is not.
		if err == nil && strings.Contains(info, pid) && (s.sentinel || s.Do("DBSIZE").Error() == nil) {
			return true, nil
		}
		s.closeAdmin()
		select {
		case <-s.exited:
			return false, nil
		case <-time.After(pollEvery):
		}
	}
	return false, fmt.Errorf("redis-server does not answer; its last words:\n%s", s.log())
}

func (s *Process) logPath() string { return filepath.Join(s.dir, "server.log") }

func (s *Process) log() string {
	text, _ := os.ReadFile(s.logPath())
	return string(bytes.TrimSpace(text))
}

// Running says whether it was started and not ended since.
func (s *Process) Running() bool { return s.process != nil }

// Kill ends the server by SIGKILL, with what it has forked to save its data,
// and waits until it is gone.
func (s *Process) Kill() { s.end(KillGroup) }

// End ends the server in an orderly way and waits until it is gone.
func (s *Process) End() {
	s.end(func(process *os.Process) {
		process.Signal(syscall.SIGCONT)
		process.Signal(syscall.SIGTERM)
	})
}

func (s *Process) end(how func(*os.Process)) {
	s.closeAdmin()
	if s.process == nil {
		return
	}
	how(s.process.Process)
	<-s.exited
	s.process = nil
}

// Restart ends the server in an orderly way, if it runs, and starts it again on
// the same port. Data is kept if asked for and if Options.AppendOnly was set.
func (s *Process) Restart(keepData bool) error {
	s.End()
	if !keepData {
		if err := s.removeData(); err != nil {
			return err
		}
	}
	for range startAttempts {
		if ready, err := s.start(); ready || err != nil {
			return err
		}
	}
	return fmt.Errorf("redis-server did not start again; its last words:\n%s", s.log())
}

func (s *Process) removeData() error {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if name := entry.Name(); name == configFile || name == nodesFile {
			continue
		}
		if err := os.RemoveAll(filepath.Join(s.dir, entry.Name())); err != nil {
			return err
		}
	}
	return nil
}

// Pause stops the server as a frozen machine would be: its connections stay
// open and nothing answers.
func (s *Process) Pause() { s.process.Process.Signal(syscall.SIGSTOP) }

// Resume lets a paused server go on.
func (s *Process) Resume() { s.process.Process.Signal(syscall.SIGCONT) }

// Do sends one command over a connection of its own.
func (s *Process) Do(args ...string) rueidis.RedisResult {
	ctx, cancel := context.WithTimeout(context.Background(), commandLimit)
	defer cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
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
func (s *Process) connect() (rueidis.Client, error) {
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress:        []string{s.Addr()},
		TLSConfig:          s.options.TLS.Config(true),
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

func (s *Process) closeAdmin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.admin != nil {
		s.admin.Close()
		s.admin = nil
	}
}
