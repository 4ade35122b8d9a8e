package pgstore_test

import (
	"context"
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/holdfastlock/holdfast/internal/pgtest"
)

// limit bounds what must come true on a busy machine; no measure of speed.
const limit = 30 * time.Second

// database is one of a user, for his transactions.
type database struct {
	server *pgtest.Server
	name   string
	url    string
}

func newDatabase(t *testing.T) *database {
	t.Helper()
	server := pgtest.Shared(t)
	name := server.Database()
	return &database{server, name, server.URL(name)}
}

// newPooledDatabase has PgBouncer in transaction mode in between.
func newPooledDatabase(t *testing.T) *database {
	t.Helper()
	db := newDatabase(t)
	db.url = pgtest.StartPooler(t, db.server).URL(db.name) + "&default_query_exec_mode=exec"
	return db
}

func (db *database) connect(t *testing.T) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), db.url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

func (db *database) begin(t *testing.T) pgx.Tx {
	t.Helper()
	return db.beginAt(t, pgx.ReadCommitted)
}

func (db *database) beginAt(t *testing.T, level pgx.TxIsoLevel) pgx.Tx {
	t.Helper()
	tx, err := db.connect(t).BeginTx(t.Context(), pgx.TxOptions{IsoLevel: level})
	if err != nil {
		t.Fatal(err)
	}
	return tx
}

func (db *database) beginSQL(t *testing.T) *sql.Tx {
	t.Helper()
	config, err := pgx.ParseConfig(db.url)
	if err != nil {
		t.Fatal(err)
	}
	pool := stdlib.OpenDB(*config)
	t.Cleanup(func() { pool.Close() })
	tx, err := pool.BeginTx(context.Background(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tx.Rollback() })
	return tx
}

// waitsForLock returns once the transaction waits for a lock of any kind.
func (db *database) waitsForLock(t *testing.T, tx pgx.Tx) {
	t.Helper()
	eventually(t, "the transaction waits", func() bool {
		return db.server.Value(db.name, waiting+" AND pid = "+pid(tx)) == "1"
	})
}

func pid(tx pgx.Tx) string { return fmt.Sprint(tx.Conn().PgConn().PID()) }

func mustExec(t *testing.T, tx pgx.Tx, query string, args ...any) {
	t.Helper()
	if _, err := tx.Exec(t.Context(), query, args...); err != nil {
		t.Fatal(err)
	}
}

func value[T any](t *testing.T, tx pgx.Tx, query string, args ...any) (v T) {
	t.Helper()
	if err := tx.QueryRow(t.Context(), query, args...).Scan(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

func commit(t *testing.T, tx pgx.Tx) {
	t.Helper()
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// eventually waits for what must come true.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); !condition(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("never came true: " + what)
		}
	}
}
