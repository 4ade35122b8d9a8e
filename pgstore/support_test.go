package pgstore

import (
	"crypto/rand"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfastlock/holdfast/driver"
	"github.com/holdfastlock/holdfast/internal/pgtest"
)

// newDatabase returns the name of a database with the tables.
func newDatabase(t *testing.T, server *pgtest.Server) string {
	t.Helper()
	database := server.Database()
	server.Exec(database, Schema())
	return database
}

func wipe(server *pgtest.Server, database string) {
	server.Exec(database, "TRUNCATE holdfast_lease, holdfast_slot")
}

// newPlace returns the URL of a schema with the tables in the server's first
// database, which is made more quickly than a database.
func newPlace(t *testing.T, server *pgtest.Server) string {
	t.Helper()
	schema := "test_" + strings.ToLower(rand.Text())
	server.Exec(pgtest.User, "CREATE SCHEMA "+schema+"; SET search_path = "+schema+";"+Schema())
	return server.URL(pgtest.User) + "&search_path=" + url.QueryEscape(schema)
}

// newStore returns a store in a place of its own on the shared server.
func newStore(t *testing.T) (*Store, *pgtest.Server) {
	t.Helper()
	server := pgtest.Shared(t)
	return mustOpen(t, newPlace(t, server)), server
}

// mustOpen returns a store that ends with the test.
func mustOpen(t *testing.T, url string) *Store {
	t.Helper()
	return mustOpenWith(t, url, Config{})
}

func mustOpenWith(t *testing.T, url string, config Config) *Store {
	t.Helper()
	store, err := Open(url, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	return store
}

func request(name string, ttl time.Duration) driver.AcquireRequest {
	return driver.AcquireRequest{Name: name, Token: driver.NewToken("host/1"), TTL: ttl}
}

func try(t *testing.T, s *Store, req driver.AcquireRequest) driver.AcquireResult {
	t.Helper()
	result, err := s.Acquire(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// mustAcquire returns the fence.
func mustAcquire(t *testing.T, s *Store, req driver.AcquireRequest) int64 {
	t.Helper()
	result := try(t, s, req)
	if !result.Granted {
		t.Fatalf("%s is held: %+v", req.Name, result.State)
	}
	return result.Fence
}

func mustRelease(t *testing.T, s *Store, req driver.AcquireRequest) {
	t.Helper()
	answer, err := s.Release(t.Context(), driver.ReleaseRequest{Name: req.Name, Token: req.Token})
	if err != nil || answer != driver.Mine {
		t.Fatalf("release of %s: %v, %v", req.Name, answer, err)
	}
}

func mustExec(t *testing.T, s *Store, sql string, args ...any) {
	t.Helper()
	if _, err := s.pool.Exec(t.Context(), sql, args...); err != nil {
		t.Fatal(err)
	}
}

// guard begins a transaction that keeps the row of the name from being granted.
// It is ended by Commit or Rollback, or with the test.
func guard(t *testing.T, s *Store, name string) pgx.Tx {
	t.Helper()
	tx, err := s.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tx.Rollback(t.Context()) })
	tag, err := tx.Exec(t.Context(), "SELECT FROM holdfast_lease WHERE name = $1 FOR KEY SHARE", name)
	if err != nil || tag.RowsAffected() != 1 {
		t.Fatalf("%v, %v", tag, err)
	}
	return tx
}

// expire ends the lease of a name.
func expire(t *testing.T, s *Store, name string) {
	t.Helper()
	mustExec(t, s, "UPDATE holdfast_lease SET expires_at = clock_timestamp() - interval '1 second' WHERE name = $1", name)
}

// eventually waits for what must come true; the limit is no measure of speed.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for limit := time.Now().Add(30 * time.Second); !condition(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatal("never came true: " + what)
		}
	}
}

// blocked says whether a statement that has the text waits for a lock.
func blocked(t *testing.T, server *pgtest.Server, text string) bool {
	t.Helper()
	return server.Value(pgtest.User, "SELECT count(*)::text FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%"+text+"%' AND pid <> pg_backend_pid()") != "0"
}

// patience is for what must happen; it is no measure of speed.
const patience = 30 * time.Second

func woken(t *testing.T, wake <-chan struct{}, why string) {
	t.Helper()
	select {
	case <-wake:
	case <-time.After(patience):
		t.Fatal("not woken: " + why)
	}
}
