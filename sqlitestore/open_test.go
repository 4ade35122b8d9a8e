package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/holdfastlock/holdfast/driver"
	sqlite "github.com/ncruces/go-sqlite3/driver"
)

// openOnce is the role of a process that opens the file and uses it once.
func openOnce(args []string) error {
	s, err := Open(context.Background(), args[0])
	if err != nil {
		return err
	}
	defer s.Close()
	_, err = s.Acquire(context.Background(), request("job", time.Minute))
	return err
}

func TestTwelveProcessesCreateTheFileAtOnce(t *testing.T) {
	for round := range 15 {
		path := filepath.Join(t.TempDir(), "new", "locks.db")
		var cmds []*exec.Cmd
		var outputs []interface{ String() string }
		for range 12 {
			cmd, output := spawn(t, "open", path)
			cmds, outputs = append(cmds, cmd), append(outputs, output)
		}
		for i, cmd := range cmds {
			if err := cmd.Wait(); err != nil {
				t.Errorf("round %d: %v: %s", round, err, outputs[i])
			}
		}
	}
}

func TestTheFilesAreForTheirUserOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "b", "locks.db")
	s := mustOpen(t, path)
	mustAcquire(t, s, request("job", time.Minute))
	for name, want := range map[string]os.FileMode{
		filepath.Dir(path): dirMode, path: fileMode, path + "-wal": fileMode, path + "-wake": fileMode,
	} {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%s has mode %o, want %o", filepath.Base(name), got, want)
		}
	}
}

func TestAPathMayHaveAnyCharacter(t *testing.T) {
	t.Chdir(t.TempDir())
	const path = "50% of?what #1 ü&=.db"
	s := mustOpen(t, path)
	mustAcquire(t, s, request("job", time.Minute))
	if _, err := os.Stat(path); err != nil || !filepath.IsAbs(s.Path()) {
		t.Errorf("%q: %v", s.Path(), err)
	}
}

// keepBusy takes the file's write lock by another connection.
func keepBusy(t *testing.T, path string) (end func()) {
	t.Helper()
	db, err := sqlite.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	tx, err := db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	end = func() { tx.Rollback(); db.Close() }
	t.Cleanup(end)
	return end
}

func TestABusyDatabaseIsWaitedFor(t *testing.T) {
	path := tempPath(t)
	s := mustOpen(t, path)
	end := keepBusy(t, path)
	type answer struct {
		result driver.AcquireResult
		err    error
	}
	done := make(chan answer, 1)
	go func() {
		result, err := s.Acquire(t.Context(), request("job", time.Minute))
		done <- answer{result, err}
	}()
	eventually(t, "the acquire has its turn", func() bool { return len(s.turn) == 1 })
	if state, err := s.Inspect(t.Context(), "job"); err != nil || len(state.Holders) != 0 {
		t.Errorf("a reader beside a writer: %+v, %v", state, err)
	}
	select {
	case a := <-done:
		t.Fatalf("answered while the database was busy: %+v", a)
	default:
	}
	end()
	if a := <-done; a.err != nil || !a.result.Granted {
		t.Errorf("%+v", a)
	}
}

func TestABusyDatabaseIsWaitedForNoLongerThanTheContext(t *testing.T) {
	path := tempPath(t)
	s := mustOpen(t, path)
	end := keepBusy(t, path)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	req := request("job", time.Minute)
	_, err := s.Acquire(ctx, req)
	if !errors.Is(err, context.DeadlineExceeded) || !driver.Unknown(err) {
		t.Errorf("acquire: %v", err)
	}
	if _, err := Open(ctx, path); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("open: %v", err)
	}
	for _, r := range s.Extend(ctx, []driver.ExtendRequest{{Name: "job", Token: req.Token, TTL: time.Minute}}) {
		if !errors.Is(r.Err, context.DeadlineExceeded) {
			t.Errorf("extend: %v", r.Err)
		}
	}
	end()
	mustAcquire(t, s, request("job", time.Minute)) // the acquire that was given up took nothing
}

func TestAFileThatIsNotOursIsRefused(t *testing.T) {
	execute := func(statements string) func(t *testing.T, path string) {
		return func(t *testing.T, path string) {
			db, err := sqlite.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			if _, err := db.Exec(statements); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, prepare := range map[string]func(t *testing.T, path string){
		"garbage": func(t *testing.T, path string) {
			if err := os.WriteFile(path, make([]byte, 8192), 0o600); err != nil {
				t.Fatal(err)
			}
		},
		"damaged":         damage,
		"another program": execute(`CREATE TABLE users (id INTEGER)`),
		"newer":           execute(schema + `; PRAGMA user_version = 3`),
		"a directory": func(t *testing.T, path string) {
			if err := os.Mkdir(path, 0o700); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := tempPath(t)
			prepare(t, path)
			s, err := Open(t.Context(), path)
			var known *driver.Error
			if !errors.Is(err, driver.ErrMisconfigured) || !errors.As(err, &known) || known.Hint == "" {
				t.Errorf("%v", err)
			}
			t.Log(err)
			if s != nil {
				s.Close()
			}
		})
	}
}

// damage overwrites all but the first page's beginning of a good file.
func damage(t *testing.T, path string) {
	s, err := Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := 100; i < len(content); i++ {
		content[i] = 0xa5
	}
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestAPlaceWithoutPermissionIsRefused(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("left out: root may write everywhere")
	}
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o500); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{filepath.Join(dir, "locks.db"), filepath.Join(dir, "sub", "locks.db")} {
		if _, err := Open(t.Context(), path); !errors.Is(err, driver.ErrRefused) {
			t.Errorf("%v", err)
		}
	}
}

func TestAFullDiskIsARefusalAndTheLeaseStays(t *testing.T) {
	s := mustOpen(t, tempPath(t))
	s.db.SetMaxOpenConns(1) // the limit below is one of a connection
	req := request("job", time.Minute)
	mustAcquire(t, s, req)
	var pages int
	if err := s.db.QueryRow(`PRAGMA max_page_count = 1`).Scan(&pages); err != nil {
		t.Fatal(err)
	}
	err := fill(t, s)
	if !errors.Is(err, driver.ErrRefused) || driver.Unknown(err) {
		t.Errorf("%v", err)
	}
	mustRelease(t, s, req)
}

// fill acquires names until the store can't keep more.
func fill(t *testing.T, s *Store) (err error) {
	for i := 0; i < 1000 && err == nil; i++ {
		_, err = s.Acquire(t.Context(), request(driver.NewToken("name"), time.Minute))
	}
	return err
}

func TestAClosedStoreSaysSo(t *testing.T) {
	s := mustOpen(t, tempPath(t))
	if err := errors.Join(s.Close(), s.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Acquire(t.Context(), request("job", time.Minute)); !errors.Is(err, errClosed) {
		t.Errorf("%v", err)
	}
	wake, stop := s.Subscribe("job")
	<-wake
	stop()
}

func TestASharedRequestIsNotSupported(t *testing.T) {
	s := mustOpen(t, tempPath(t))
	req := request("job", time.Minute)
	req.Mode, req.Limit = driver.Shared, 2
	if _, err := s.Acquire(t.Context(), req); !errors.Is(err, driver.ErrUnsupported) {
		t.Errorf("%v", err)
	}
}

func TestCommitsAreSyncedToTheDisk(t *testing.T) {
	s := mustOpen(t, tempPath(t))
	setting := func(conn *sql.Conn, name string) (value string) {
		if err := conn.QueryRowContext(t.Context(), `PRAGMA `+name).Scan(&value); err != nil {
			t.Fatal(err)
		}
		return value
	}
	for range maxConns { // a setting of each connection
		conn, err := s.db.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if mode, sync := setting(conn, "journal_mode"), setting(conn, "synchronous"); mode != "wal" || sync != "2" {
			t.Errorf("journal mode %s, synchronous %s, want wal and 2 (FULL)", mode, sync)
		}
	}
}
