package sqlfence_test

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib"
	_ "github.com/ncruces/go-sqlite3/driver"
	"go.uber.org/goleak"

	"github.com/holdfastlock/holdfast/fence"
	"github.com/holdfastlock/holdfast/fence/internal/fencetest"
	"github.com/holdfastlock/holdfast/fence/sqlfence"
	"github.com/holdfastlock/holdfast/internal/pgtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(pgtest.Main{M: m}) }

// database is a database under test.
type database struct {
	sqlfence.Dialect
	db      atomic.Pointer[sql.DB]
	open    func() *sql.DB
	restart func(*testing.T)
}

// tables are those of the tests: what was written, and rows with a fence.
var tables = map[sqlfence.Dialect][]string{
	sqlfence.Postgres: {
		"CREATE TABLE written (id bigserial PRIMARY KEY, resource text, fence bigint)",
		"CREATE TABLE sheet (name text PRIMARY KEY, fence bigint NOT NULL DEFAULT 0, holder text NOT NULL DEFAULT '')",
	},
	sqlfence.SQLite: {
		"CREATE TABLE written (id integer PRIMARY KEY, resource text, fence bigint)",
		"CREATE TABLE sheet (name text PRIMARY KEY, fence bigint NOT NULL DEFAULT 0, holder text NOT NULL DEFAULT '')",
	},
	sqlfence.MySQL: {
		"CREATE TABLE written (id bigint PRIMARY KEY AUTO_INCREMENT, resource varbinary(512), fence bigint)",
		"CREATE TABLE sheet (name varbinary(512) PRIMARY KEY, fence bigint NOT NULL DEFAULT 0, holder varbinary(512) NOT NULL DEFAULT '')",
	},
}

func onPostgres(t *testing.T, server *pgtest.Server) *database {
	name := server.Database()
	return prepare(t, &database{
		Dialect: sqlfence.Postgres, open: func() *sql.DB { return connect(t, "pgx", server.URL(name)) },
		restart: func(*testing.T) { server.Restart() },
	})
}

func onSQLite(t *testing.T) *database {
	path := t.TempDir() + "/test.db"
	return prepare(t, &database{
		Dialect: sqlfence.SQLite, open: func() *sql.DB {
			return connect(t, "sqlite3", "file:"+path+"?_pragma=busy_timeout(30000)&_pragma=synchronous(off)")
		},
		restart: func(*testing.T) {},
	})
}

func onMariaDB(t *testing.T) *database {
	server := startMariaDB(t)
	return prepare(t, &database{
		Dialect: sqlfence.MySQL, open: func() *sql.DB { return server.open(t, "test") },
		restart: server.restart,
	})
}

func connect(t *testing.T, driver, url string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, url)
	if err != nil {
		t.Fatal(err)
	}
	return db
}

// prepare opens the database and makes the tables, that of fences twice.
func prepare(t *testing.T, d *database) *database {
	t.Helper()
	d.db.Store(d.open())
	t.Cleanup(func() { d.db.Load().Close() })
	for _, statement := range append([]string{d.Schema(), d.Schema()}, tables[d.Dialect]...) {
		d.exec(t, statement)
	}
	return d
}

// exec runs a statement, in which ? stands for an argument.
func (d *database) exec(t *testing.T, statement string, args ...any) {
	t.Helper()
	if _, err := d.db.Load().Exec(d.numbered(statement), args...); err != nil {
		t.Fatal(err)
	}
}

// numbered puts $1 and so on for each question mark, except in MySQL.
func (d *database) numbered(statement string) string {
	if d.Dialect == sqlfence.MySQL {
		return statement
	}
	for i := 1; strings.Contains(statement, "?"); i++ {
		statement = strings.Replace(statement, "?", "$"+string(rune('0'+i)), 1)
	}
	return statement
}

func (d *database) reopen(t *testing.T) {
	d.db.Load().Close()
	d.restart(t)
	d.db.Store(d.open())
}

// under commits a transaction of these steps, or rolls it back.
func (d *database) under(ctx context.Context, level sql.IsolationLevel, steps ...func(*sql.Tx) error) error {
	tx, err := d.db.Load().BeginTx(ctx, &sql.TxOptions{Isolation: level})
	if err != nil {
		return err
	}
	defer tx.Rollback()
	for _, step := range steps {
		if err := step(tx); err != nil {
			return err
		}
	}
	return tx.Commit()
}

func (d *database) write(ctx context.Context, resource string, shown int64) func(*sql.Tx) error {
	return func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, d.numbered("INSERT INTO written (resource, fence) VALUES (?, ?)"), resource, shown)
		return err
	}
}

func (d *database) list(t *testing.T, resource string) []int64 {
	t.Helper()
	rows, err := d.db.Load().Query(d.numbered("SELECT fence FROM written WHERE resource = ? ORDER BY id"), resource)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var list []int64
	for rows.Next() {
		var shown int64
		if err := rows.Scan(&shown); err != nil {
			t.Fatal(err)
		}
		list = append(list, shown)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return list
}

// shower shows a fence in a transaction.
type shower func(ctx context.Context, tx *sql.Tx, resource, owner string, shown int64) error

// resources are those of writers that show their fence in their transaction.
func (d *database) resources(level sql.IsolationLevel, show shower) fencetest.Resources {
	return fencetest.Resources{
		Touch: func(ctx context.Context, resource, owner string, shown int64) error {
			return d.under(ctx, level, func(tx *sql.Tx) error { return show(ctx, tx, resource, owner, shown) })
		},
		Append: func(ctx context.Context, resource, owner string, shown int64, between func() error) error {
			return d.under(ctx, level,
				func(tx *sql.Tx) error { return show(ctx, tx, resource, owner, shown) },
				func(*sql.Tx) error { return between() },
				d.write(ctx, resource, shown))
		},
		List: d.list, RollsBack: true, Reopen: d.reopen,
	}
}

var sheet = sqlfence.Columns{Table: "sheet", Key: "name", Fence: "fence", Owner: "holder"}

// rows are resources of which each is a row of the user's own.
func (d *database) rows(t *testing.T) fencetest.Resources {
	r := d.resources(sql.LevelDefault, d.updateRow)
	var mu sync.Mutex
	made := map[string]bool{}
	makeRow := func(resource string) {
		mu.Lock()
		defer mu.Unlock()
		if !made[resource] {
			made[resource] = true
			d.exec(t, "INSERT INTO sheet (name) VALUES (?)", resource)
		}
	}
	touch, write := r.Touch, r.Append
	r.Touch = func(ctx context.Context, resource, owner string, shown int64) error {
		makeRow(resource)
		return withoutTable(touch(ctx, resource, owner, shown))
	}
	r.Append = func(ctx context.Context, resource, owner string, shown int64, between func() error) error {
		makeRow(resource)
		return withoutTable(write(ctx, resource, owner, shown, between))
	}
	return r
}

// updateRow shows a fence by an UPDATE of the row.
func (d *database) updateRow(ctx context.Context, tx *sql.Tx, resource, owner string, shown int64) error {
	statement := "UPDATE sheet SET fence = $1, holder = $2 WHERE name = $3 AND " + sheet.Clause("$1", "$2")
	args := []any{shown, owner, resource}
	if d.Dialect == sqlfence.MySQL {
		statement = "UPDATE sheet SET fence = ?, holder = ? WHERE name = ? AND " + sheet.Clause("?", "?")
		args = append(args, shown, shown, owner)
	}
	result, err := tx.ExecContext(ctx, statement, args...)
	if err != nil {
		return err
	}
	if n, err := result.RowsAffected(); err != nil || n == 1 {
		return err
	}
	return d.Why(ctx, tx, sheet, resource, owner, shown)
}

// withoutTable leaves the key in an error as the resource.
func withoutTable(err error) error {
	var stale *fence.StaleError
	if errors.As(err, &stale) {
		stale.Resource = strings.TrimPrefix(stale.Resource, "sheet ")
	}
	var conflict *fence.ConflictError
	if errors.As(err, &conflict) {
		conflict.Resource = strings.TrimPrefix(conflict.Resource, "sheet ")
	}
	return err
}

// guarded are resources outside of the database.
func (d *database) guarded() fencetest.Resources {
	var mu sync.Mutex
	lists := map[string][]int64{}
	guard := func() *sqlfence.Guard { return sqlfence.NewGuard(d.db.Load(), d.Dialect) }
	return fencetest.Resources{
		Touch: func(ctx context.Context, resource, owner string, shown int64) error {
			return guard().Touch(ctx, resource, owner, shown)
		},
		Append: func(ctx context.Context, resource, owner string, shown int64, between func() error) error {
			return guard().Do(ctx, resource, owner, shown, func(context.Context) error {
				if err := between(); err != nil {
					return err
				}
				mu.Lock()
				defer mu.Unlock()
				lists[resource] = append(lists[resource], shown)
				return nil
			})
		},
		List: func(_ *testing.T, resource string) []int64 {
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(lists[resource])
		},
		Reopen: d.reopen,
	}
}

func conformance(t *testing.T, d *database, levels ...sql.IsolationLevel) {
	for _, level := range levels {
		t.Run("touch at level "+level.String(), func(t *testing.T) {
			fencetest.Run(t, d.resources(level, d.Touch))
			d.exec(t, "DELETE FROM written")
			d.exec(t, "DELETE FROM holdfast_fence")
		})
	}
	t.Run("a column of the user's own", func(t *testing.T) {
		fencetest.Run(t, d.rows(t))
	})
	t.Run("guard", func(t *testing.T) { fencetest.Run(t, d.guarded()) })
}

func TestConformanceOnPostgres(t *testing.T) {
	t.Parallel()
	conformance(t, onPostgres(t, pgtest.Start(t, pgtest.Options{})), sql.LevelReadCommitted)
}

func TestConformanceOnSQLite(t *testing.T) {
	t.Parallel()
	conformance(t, onSQLite(t), sql.LevelDefault)
}

func TestConformanceOnMariaDB(t *testing.T) {
	t.Parallel()
	conformance(t, onMariaDB(t), sql.LevelReadCommitted, sql.LevelRepeatableRead)
}
