package pgtest

import (
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
)

// Pooler is PgBouncer in transaction mode before a server. Its methods are for
// one goroutine at a time.
type Pooler struct {
	daemon
	server *Process
}

// StartPooler runs a pooler that ends with the test. Without pgbouncer the test
// is skipped, or fails where CI is set.
func StartPooler(t testing.TB, server *Server) *Pooler {
	t.Helper()
	binary, err := FindPooler()
	skip(t, err)
	pooler, err := LaunchPooler(binary, server.Process)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pooler.Remove)
	return pooler
}

// FindPooler returns the path of pgbouncer, which Debian has where only root's
// PATH leads.
func FindPooler() (string, error) {
	for _, name := range []string{"pgbouncer", "/usr/sbin/pgbouncer"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("needs PgBouncer: install pgbouncer")
}

// LaunchPooler runs a pooler on a free port of the loopback interface. The
// caller ends it by Remove. The server must have no password.
func LaunchPooler(binary string, server *Process) (*Pooler, error) {
	dir, err := newFolder()
	if err != nil {
		return nil, err
	}
	p := &Pooler{daemon: daemon{binary: binary, dir: dir}, server: server}
	if err := p.start(true, p.arguments, p.ready); err != nil {
		p.Remove()
		return nil, err
	}
	return p, nil
}

// poolSize is small, so that transactions of one client meet several
// connections of the server, and those of several clients share one.
const poolSize = 5

// arguments writes the configuration, which has the port.
func (p *Pooler) arguments() []string {
	path := filepath.Join(p.dir, "pgbouncer.ini")
	text := fmt.Sprintf(`[databases]
* = host=127.0.0.1 port=%[1]d user=%[2]s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %[3]d
unix_socket_dir =
auth_type = any
admin_users = %[2]s
pool_mode = transaction
default_pool_size = %[4]d
max_client_conn = 500
server_login_retry = 0.1
`, p.server.port, User, p.port, poolSize)
	_ = writeFile(path, text) // a failure shows as a server that does not start
	return []string{path}
}

func (p *Pooler) ready() bool {
	conn, err := net.Dial("tcp", p.Addr())
	if err != nil {
		return false
	}
	conn.Close()
	return true
}

// Addr returns host:port.
func (p *Pooler) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(p.port)) }

// URL returns the address of a database as a postgres:// URL.
func (p *Pooler) URL(database string) string { return p.server.urlAt(p.Addr(), database) }

// Restart ends the pooler at once, with its clients' connections, and starts it
// again on the same port.
func (p *Pooler) Restart() error {
	p.Kill()
	return p.start(false, p.arguments, p.ready)
}

// Kill ends the pooler by SIGKILL and waits until it is gone.
func (p *Pooler) Kill() { p.kill() }

// Pause freezes it.
func (p *Pooler) Pause() { p.signal(syscall.SIGSTOP) }

// Resume lets a paused pooler go on.
func (p *Pooler) Resume() { p.signal(syscall.SIGCONT) }
