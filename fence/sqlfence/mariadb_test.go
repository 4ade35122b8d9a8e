package sqlfence_test

import (
	"database/sql"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql"

	"github.com/holdfastlock/holdfast/internal/redistest"
)

// mariadb is a server with the socket of a temporary folder as its only door.
type mariadb struct {
	binary  string
	dir     string
	process *exec.Cmd
	exited  chan struct{}
}

// startMariaDB runs a server that ends with the test. Without the program the
// test is skipped, or fails where CI is set.
func startMariaDB(t *testing.T) *mariadb {
	t.Helper()
	binary, err := exec.LookPath("mariadbd")
	if err != nil {
		binary, err = exec.LookPath("/usr/sbin/mariadbd") // where not everybody looks
	}
	switch {
	case err != nil && os.Getenv("CI") == "":
		t.Skip("needs a MariaDB server: install mariadb-server-core")
	case err != nil:
		t.Fatal("needs a MariaDB server: install mariadb-server-core")
	}
	dir, err := os.MkdirTemp("", "holdfast-my") // not t.TempDir: a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	m := &mariadb{binary: binary, dir: dir}
	t.Cleanup(func() {
		m.end()
		os.RemoveAll(dir)
	})
	if err := os.Mkdir(filepath.Join(dir, "data"), 0o700); err != nil {
		t.Fatal(err)
	}
	m.start(t)
	db := m.open(t, "")
	defer db.Close()
	if _, err := db.Exec("CREATE DATABASE test"); err != nil {
		t.Fatal(err)
	}
	return m
}

// start runs the server on an empty folder without system tables, which it does
// not need as long as it asks for no passwords.
func (m *mariadb) start(t *testing.T) {
	t.Helper()
	account, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(m.dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	m.process = exec.Command(m.binary, "--no-defaults", "--user="+account.Username,
		"--datadir="+filepath.Join(m.dir, "data"), "--skip-networking", "--skip-grant-tables",
		"--socket="+m.socket(), "--pid-file="+filepath.Join(m.dir, "pid"),
		"--innodb-buffer-pool-size=16M", "--innodb-flush-log-at-trx-commit=2")
	m.process.Stdout, m.process.Stderr, m.process.SysProcAttr = log, log, redistest.OwnGroup()
	if err := m.process.Start(); err != nil {
		t.Fatal(err)
	}
	m.exited = make(chan struct{})
	go func(process *exec.Cmd, exited chan struct{}) {
		defer close(exited)
		process.Wait()
	}(m.process, m.exited)
	m.await(t)
}

func (m *mariadb) await(t *testing.T) {
	t.Helper()
	db := m.open(t, "")
	defer db.Close()
	deadline := time.After(time.Minute)
	for db.Ping() != nil {
		select {
		case <-m.exited:
			text, _ := os.ReadFile(filepath.Join(m.dir, "log"))
			t.Fatalf("mariadbd did not start:\n%s", text)
		case <-deadline:
			t.Fatal("mariadbd does not answer")
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func (m *mariadb) end() {
	if m.process != nil && m.process.Process != nil {
		m.process.Process.Signal(syscall.SIGTERM)
		<-m.exited
	}
}

func (m *mariadb) restart(t *testing.T) {
	m.end()
	m.start(t)
}

func (m *mariadb) socket() string { return filepath.Join(m.dir, "s") }

func (m *mariadb) open(t *testing.T, database string) *sql.DB {
	t.Helper()
	db, err := sql.Open("mysql", "root@unix("+m.socket()+")/"+database)
	if err != nil {
		t.Fatal(err)
	}
	return db
}
