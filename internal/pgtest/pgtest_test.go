package pgtest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(Main{m}) }

func TestDataIsKeptOverKillAndRestart(t *testing.T) {
	server := Start(t, Options{Password: "pw"})
	database := server.Database()
	server.Exec(database, "CREATE TABLE t (n int); INSERT INTO t VALUES (7)")
	before := server.Port()
	server.Kill()
	server.Restart()
	server.Restart()
	if got := server.Value(database, "SELECT n::text FROM t"); got != "7" || server.Port() != before {
		t.Errorf("got %s on port %d, want 7 on %d", got, server.Port(), before)
	}
}

func TestAPasswordIsAskedFor(t *testing.T) {
	server := Start(t, Options{Password: "pw"})
	config, err := pgx.ParseConfig(server.URL(User))
	if err != nil {
		t.Fatal(err)
	}
	config.Password = "wrong"
	_, err = pgx.ConnectConfig(t.Context(), config)
	if refused := (*pgconn.PgError)(nil); !errors.As(err, &refused) || refused.Code != "28P01" {
		t.Errorf("a wrong password: %v", err)
	}
}

func TestAPausedServerAnswersAfterwards(t *testing.T) {
	server := Start(t, Options{})
	conn, err := pgx.Connect(t.Context(), server.URL(User))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	server.Pause()
	answered := make(chan error, 1)
	go func() { answered <- conn.Ping(t.Context()) }()
	select {
	case err := <-answered:
		t.Errorf("a paused server answered: %v", err)
		return
	case <-time.After(100 * time.Millisecond): // it could only fail to notice
	}
	server.Resume()
	if err := <-answered; err != nil {
		t.Error(err)
	}
}

func TestTestsShareAServerAndHaveADatabaseEach(t *testing.T) {
	a, b := Shared(t), Shared(t)
	if a.Process != b.Process {
		t.Error("two shared servers")
	}
	one, two := a.Database(), b.Database()
	a.Exec(one, "CREATE TABLE t ()")
	if got := b.Value(two, "SELECT coalesce(to_regclass('t')::text, 'none')"); got != "none" {
		t.Errorf("another database has the table %s", got)
	}
}

func TestThePoolerServesWhatTheServerHas(t *testing.T) {
	server := Shared(t)
	database := server.Database()
	server.Exec(database, "CREATE TABLE t (n int); INSERT INTO t VALUES (7)")
	pooler := StartPooler(t, server)
	for range 2 {
		var n int
		conn, err := pgx.Connect(t.Context(), pooler.URL(database)+"&default_query_exec_mode=exec")
		if err == nil {
			err = conn.QueryRow(t.Context(), "SELECT n FROM t").Scan(&n)
			conn.Close(t.Context())
		}
		if err != nil || n != 7 {
			t.Fatalf("got %d, %v, want 7", n, err)
		}
		if err := pooler.Restart(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestNothingIsLeft(t *testing.T) {
	process, err := Launch(binaries(t), Options{})
	if err != nil {
		t.Fatal(err)
	}
	family, dir := process.family(), process.dir
	if len(family) < 2 {
		t.Errorf("family %v: no children found", family)
	}
	process.Remove()
	process.Remove()
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("%s is left: %v", dir, err)
	}
	for _, pid := range family {
		path := filepath.Join("/proc", strconv.Itoa(pid), "cmdline")
		for limit := time.Now().Add(10 * time.Second); ; time.Sleep(pollEvery) {
			text, err := os.ReadFile(path)
			if err != nil || len(text) == 0 { // gone, or a zombie
				break
			}
			if time.Now().After(limit) {
				t.Fatalf("process %d is left: %s", pid, text)
			}
		}
	}
}
