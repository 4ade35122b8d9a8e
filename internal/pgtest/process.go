package pgtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// commandLimit is how long Exec and Value wait for an answer.
const commandLimit = 10 * time.Second

// User is the superuser of every server.
const User = "postgres"

// Options says how a server is set up. The zero value lets everybody in, and
// does not wait for the disk: the data survives kill -9, but not a power cut.
type Options struct {
	// Sync writes every commit to the disk before it is answered.
	Sync bool
	// Password is that of User; everybody then needs one.
	Password string
	// Settings are lines as postgresql.conf has them, such as
	// "default_transaction_read_only=on".
	Settings []string
}

// Process is a Postgres server. Its methods other than Exec and Value are for
// one goroutine at a time.
type Process struct {
	daemon
	options Options
	bin     string
}

// FindBinaries returns the folder of Postgres' programs: HOLDFAST_TEST_POSTGRES,
// else the newest of Debian's, else the one in PATH.
func FindBinaries() (string, error) {
	var folders []string
	if chosen := os.Getenv("HOLDFAST_TEST_POSTGRES"); chosen != "" {
		folders = []string{chosen}
	} else {
		folders, _ = filepath.Glob("/usr/lib/postgresql/*/bin")
		slices.SortFunc(folders, func(a, b string) int { return release(b) - release(a) })
		if path, err := exec.LookPath("initdb"); err == nil {
			folders = append(folders, filepath.Dir(path))
		}
	}
	for _, folder := range folders {
		if _, err := exec.LookPath(filepath.Join(folder, "initdb")); err == nil {
			return folder, nil
		}
	}
	return "", errors.New("needs a Postgres server: install postgresql, or set HOLDFAST_TEST_POSTGRES to the folder of initdb")
}

func release(folder string) int {
	number, _ := strconv.Atoi(filepath.Base(filepath.Dir(folder)))
	return number
}

// Launch makes a cluster with the programs in bin, which takes seconds, and runs
// it on a free port of the loopback interface, and a socket in its folder. It
// returns when the server answers. The caller ends it by Remove; it also ends
// with this process where the system can do that.
func Launch(bin string, options Options) (*Process, error) {
	dir, err := newFolder()
	if err != nil {
		return nil, err
	}
	p := &Process{
		daemon: daemon{binary: filepath.Join(bin, "postgres"), dir: dir}, options: options, bin: bin,
	}
	if err = p.create(); err == nil {
		err = p.start(true, p.arguments, p.ready)
	}
	if err != nil {
		p.Remove()
		return nil, err
	}
	return p, nil
}

// create makes the cluster.
func (p *Process) create() error {
	args := []string{"-D", p.DataDir(), "-U", User, "--encoding=UTF8", "--locale=C", "--no-sync"}
	if p.options.Password == "" {
		args = append(args, "--auth=trust")
	} else {
		file := filepath.Join(p.dir, "password")
		if err := writeFile(file, p.options.Password+"\n"); err != nil {
			return err
		}
		args = append(args, "--auth=scram-sha-256", "--pwfile="+file)
	}
	cmd, err := command(p.dir, filepath.Join(p.bin, "initdb"), args...)
	if err != nil {
		return err
	}
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, output)
	}
	return nil
}

func (p *Process) arguments() []string {
	settings := []string{
		"listen_addresses=127.0.0.1", "port=" + strconv.Itoa(p.port), "unix_socket_directories=" + p.dir,
		"shared_buffers=16MB", "max_connections=200",
	}
	if !p.options.Sync {
		settings = append(settings, "fsync=off", "full_page_writes=off")
	}
	args := []string{"-D", p.DataDir()}
	for _, setting := range append(settings, p.options.Settings...) {
		args = append(args, "-c", setting)
	}
	return args
}

// ready reads the server's own note, which says that it takes connections.
func (p *Process) ready() bool {
	note, _ := os.ReadFile(filepath.Join(p.DataDir(), "postmaster.pid"))
	lines := strings.Split(string(note), "\n")
	const statusLine = 7
	if len(lines) <= statusLine || lines[0] != strconv.Itoa(p.process.Pid) {
		return false
	}
	status := strings.TrimSpace(lines[statusLine])
	return status == "ready" || status == "standby"
}

// DataDir returns the folder of the cluster.
func (p *Process) DataDir() string { return filepath.Join(p.dir, "data") }

// SocketDir returns the folder of the socket, which a client is given as host.
func (p *Process) SocketDir() string { return p.dir }

// Addr returns host:port.
func (p *Process) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(p.port)) }

// Port returns the port.
func (p *Process) Port() int { return p.port }

// URL returns the address of a database as a postgres:// URL, with the password
// if there is one.
func (p *Process) URL(database string) string { return p.urlAt(p.Addr(), database) }

func (p *Process) urlAt(address, database string) string {
	user := url.User(User)
	if p.options.Password != "" {
		user = url.UserPassword(User, p.options.Password)
	}
	where := url.URL{Scheme: "postgres", User: user, Host: address, Path: "/" + database, RawQuery: "sslmode=disable"}
	return where.String()
}

// Kill ends the server and its children by SIGKILL and waits until it is gone.
func (p *Process) Kill() { p.kill() }

// End ends the server in an orderly way, without waiting for its clients, and
// waits until it is gone.
func (p *Process) End() { p.end(syscall.SIGINT) }

// Restart ends the server in an orderly way, if it runs, and starts it again on
// the same port with the same data.
func (p *Process) Restart() error {
	p.End()
	return p.start(false, p.arguments, p.ready)
}

// Pause stops the server and its children as a frozen machine would be: its
// connections stay open and nothing answers. Linux only.
func (p *Process) Pause() { p.signal(syscall.SIGSTOP) }

// Resume lets a paused server go on.
func (p *Process) Resume() { p.signal(syscall.SIGCONT) }

// Exec runs SQL, over a connection of its own.
func (p *Process) Exec(database, sql string) error {
	return p.with(database, func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.PgConn().Exec(ctx, sql).ReadAll()
		return err
	})
}

// Value returns the first column of the first row as text; the query casts it.
func (p *Process) Value(database, sql string) (value string, err error) {
	err = p.with(database, func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, sql).Scan(&value)
	})
	return value, err
}

func (p *Process) with(database string, do func(context.Context, *pgx.Conn) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), commandLimit)
	defer cancel()
	conn, err := pgx.Connect(ctx, p.URL(database))
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	return do(ctx, conn)
}
