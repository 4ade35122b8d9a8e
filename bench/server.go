package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/redis/rueidis"
)

// server is a redis-server process without persistence, on the loopback
// interface.
type server struct {
	addr    string
	dir     string
	process *exec.Cmd
	exited  chan struct{}
	admin   rueidis.Client // for what is not measured
	others  []*server      // those that end with it, whose addresses addr has too
}

// startServer runs $HOLDFAST_TEST_REDIS or else redis-server on a free port and
// returns when it answers.
func startServer(ctx context.Context) (*server, error) {
	binary := os.Getenv("HOLDFAST_TEST_REDIS")
	if binary == "" {
		binary = "redis-server"
	}
	dir, err := os.MkdirTemp("", "holdfast-bench-")
	if err != nil {
		return nil, err
	}
	// Another process may take the port between our look and the bind.
	for range 5 {
		s := &server{dir: dir, exited: make(chan struct{})}
		if err = s.launch(binary); err != nil {
			break
		}
		if err = s.waitReady(ctx); err == nil {
			return s, nil
		}
		s.kill()
		if ctx.Err() != nil {
			break
		}
	}
	os.RemoveAll(dir)
	return nil, fmt.Errorf("no Redis server: %w", err)
}

func (s *server) launch(binary string) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s.addr = listener.Addr().String()
	listener.Close()
	_, port, _ := net.SplitHostPort(s.addr)
	log, err := os.Create(filepath.Join(s.dir, "server.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	s.process = exec.Command(binary, "--port", port, "--bind", "127.0.0.1", "--dir", s.dir,
		"--save", "", "--appendonly", "no", "--daemonize", "no")
	s.process.Stdout, s.process.Stderr = log, log
	// In a group of its own, so that Ctrl-C reaches this program alone, which
	// stops the server when it has stopped using it.
	s.process.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := s.process.Start(); err != nil {
		return err
	}
	go func() {
		defer close(s.exited)
		s.process.Wait()
	}()
	return nil
}

// waitReady waits until this very process answers: something else may have got
// the port.
func (s *server) waitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	pid := fmt.Sprintf("process_id:%d\r\n", s.process.Process.Pid)
	for {
		client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{s.addr}, DisableCache: true})
		if err == nil {
			info, err := client.Do(ctx, client.B().Info().Section("server").Build()).ToString()
			if err == nil && strings.Contains(info, pid) {
				s.admin = client
				return nil
			}
			client.Close()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.exited:
			log, _ := os.ReadFile(filepath.Join(s.dir, "server.log"))
			return errors.New("it ended at once: " + string(log))
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// stop ends the server and removes what it left.
func (s *server) stop() {
	for _, other := range s.others {
		other.stop()
	}
	s.kill()
	os.RemoveAll(s.dir)
}

func (s *server) kill() {
	if s.admin != nil {
		s.admin.Close()
	}
	s.process.Process.Kill()
	<-s.exited
}

// info returns one section of INFO as a map of its lines.
func (s *server) info(ctx context.Context, section string) (map[string]string, error) {
	text, err := s.admin.Do(ctx, s.admin.B().Info().Section(section).Build()).ToString()
	if err != nil {
		return nil, err
	}
	lines := map[string]string{}
	for line := range strings.Lines(text) {
		if key, value, found := strings.Cut(strings.TrimSpace(line), ":"); found {
			lines[key] = value
		}
	}
	return lines, nil
}

// cpu returns the CPU time that the server has used so far, in user and kernel
// mode, or 0 if it does not say.
func (s *server) cpu(ctx context.Context) time.Duration {
	lines, err := s.info(ctx, "cpu")
	if err != nil {
		return 0
	}
	user, _ := strconv.ParseFloat(lines["used_cpu_user"], 64)
	system, _ := strconv.ParseFloat(lines["used_cpu_sys"], 64)
	return time.Duration((user + system) * float64(time.Second))
}

// flush removes all data, so that what is measured next begins with none.
func (s *server) flush(ctx context.Context) error {
	for _, other := range s.others {
		if err := other.flush(ctx); err != nil {
			return err
		}
	}
	return s.admin.Do(ctx, s.admin.B().Flushall().Build()).Error()
}
