package pgstore_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/holdfastlock/holdfast/driver"
	"github.com/holdfastlock/holdfast/pgstore"
)

// jobs makes a database with a table of jobs 1 to n.
func jobs(t *testing.T, n int) *database {
	t.Helper()
	db := newDatabase(t)
	db.fill(t, n)
	return db
}

func (db *database) fill(t *testing.T, n int) {
	t.Helper()
	tx := db.begin(t)
	mustExec(t, tx, `CREATE TABLE job (id bigint PRIMARY KEY, kind text NOT NULL, done boolean NOT NULL DEFAULT false)`)
	mustExec(t, tx, `INSERT INTO job SELECT n, CASE n % 2 WHEN 0 THEN 'mail' ELSE 'fax' END FROM generate_series(1, $1::int) n`, n)
	commit(t, tx)
}

// next claims the ids that are first.
func next(n int) pgstore.Claim {
	return pgstore.Claim{
		Table: pgx.Identifier{"job"}, Columns: []string{"id"}, Where: "NOT done",
		OrderBy: []pgstore.Order{{Column: "id"}}, Limit: n,
	}
}

func claim(t *testing.T, tx pgx.Tx, c pgstore.Claim) []int64 {
	t.Helper()
	rows, err := c.Rows(t.Context(), tx)
	if err != nil {
		t.Fatal(err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		t.Fatal(err)
	}
	return ids
}

func wantClaimed(t *testing.T, got []int64, want ...int64) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("claimed %v, want %v", got, want)
	}
}

func TestARowIsClaimedByOneTransaction(t *testing.T) {
	db := jobs(t, 5)
	first, second := db.begin(t), db.begin(t)
	wantClaimed(t, claim(t, first, next(2)), 1, 2)
	wantClaimed(t, claim(t, second, next(2)), 3, 4)
	wantClaimed(t, claim(t, db.begin(t), next(2)), 5)
	wantClaimed(t, claim(t, db.begin(t), next(2)))
}

func TestARollbackFreesWhatWasClaimed(t *testing.T) {
	db := jobs(t, 3)
	tx := db.begin(t)
	claim(t, tx, next(2))
	mustExec(t, tx, "UPDATE job SET done = true WHERE id = 1")
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantClaimed(t, claim(t, db.begin(t), next(3)), 1, 2, 3)
}

func TestWhatIsDoneIsNotClaimedAgainAndTheRestIs(t *testing.T) {
	db := jobs(t, 3)
	tx := db.begin(t)
	claim(t, tx, next(2))
	mustExec(t, tx, "UPDATE job SET done = true WHERE id = 1")
	commit(t, tx)
	wantClaimed(t, claim(t, db.begin(t), next(3)), 2, 3)
}

func TestAClaimIsFreeOnceItsConnectionWasKilled(t *testing.T) {
	db := jobs(t, 2)
	tx := db.begin(t)
	claim(t, tx, next(2))
	db.server.Exec(db.name, "SELECT pg_terminate_backend("+pid(tx)+")")
	eventually(t, "the rows are free", func() bool {
		again := db.begin(t)
		defer again.Rollback(context.Background())
		return len(claim(t, again, next(2))) == 2
	})
}

func TestAClaimKeepsToItsConditionAndOrder(t *testing.T) {
	db := jobs(t, 9)
	c := next(3)
	c.Where, c.Args = "kind = $1 OR id = $2 -- and so on", []any{"mail", 9}
	c.OrderBy = []pgstore.Order{{Column: "kind"}, {Column: "id", Descending: true}}
	wantClaimed(t, claim(t, db.begin(t), c), 9, 8, 6)
	c.Where, c.Args = "kind = @kind", []any{pgx.NamedArgs{"kind": "mail"}}
	wantClaimed(t, claim(t, db.begin(t), c), 4, 2)
	wantClaimed(t, claim(t, db.begin(t), pgstore.Claim{Table: pgx.Identifier{"public", "job"}, Columns: []string{"id"}, Limit: 1}), 1)
}

func TestAClaimWithoutColumnsHasAll(t *testing.T) {
	type job struct {
		ID   int64
		Kind string
		Done bool
	}
	db := jobs(t, 1)
	c := next(1)
	c.Columns = nil
	rows, err := c.Rows(t.Context(), db.begin(t))
	if err != nil {
		t.Fatal(err)
	}
	got, err := pgx.CollectOneRow(rows, pgx.RowToStructByName[job])
	if want := (job{ID: 1, Kind: "fax"}); err != nil || got != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
}

func TestNamesAreQuoted(t *testing.T) {
	db := newDatabase(t)
	tx := db.begin(t)
	mustExec(t, tx, `CREATE SCHEMA "a.b"`)
	mustExec(t, tx, `CREATE TABLE "a.b"."Job ""one""" ("order" bigint)`)
	mustExec(t, tx, `INSERT INTO "a.b"."Job ""one""" VALUES (1), (2)`)
	got := claim(t, tx, pgstore.Claim{
		Table: pgx.Identifier{"a.b", `Job "one"`}, Columns: []string{"order"},
		OrderBy: []pgstore.Order{{Column: "order", Descending: true}}, Limit: 2,
	})
	wantClaimed(t, got, 2, 1)
}

func TestAnIncompleteClaimIsRefused(t *testing.T) {
	tx := jobs(t, 1).begin(t)
	for _, c := range []pgstore.Claim{{Limit: 1}, {Table: pgx.Identifier{"job"}}} {
		rows, err := c.Rows(t.Context(), tx)
		if !errors.Is(err, driver.ErrMisconfigured) {
			t.Errorf("%+v: %v", c, err)
		}
		if err == nil {
			rows.Close()
		}
	}
	wantClaimed(t, claim(t, tx, next(1)), 1)
}

// A row that was changed in between is judged anew, or ends a transaction that
// is stricter than READ COMMITTED.
func TestARowThatChangedMeanwhileIsJudgedAnew(t *testing.T) {
	for level, code := range map[pgx.TxIsoLevel]string{pgx.ReadCommitted: "", pgx.RepeatableRead: "40001"} {
		t.Run(string(level), func(t *testing.T) {
			db := jobs(t, 2)
			tx := db.beginAt(t, level)
			value[int](t, tx, "SELECT count(*) FROM job") // it sees the database as it is now
			other := db.begin(t)
			mustExec(t, other, "UPDATE job SET done = true WHERE id = 1")
			commit(t, other)
			rows, err := next(1).Rows(t.Context(), tx)
			if err != nil {
				t.Fatal(err)
			}
			ids, err := pgx.CollectRows(rows, pgx.RowTo[int64])
			if code == "" && err == nil {
				wantClaimed(t, ids, 2)
				return
			}
			if failed := (*pgconn.PgError)(nil); !errors.As(err, &failed) || failed.Code != code {
				t.Errorf("claimed %v, %v", ids, err)
			}
		})
	}
}

func TestAClaimWorksBehindAPooler(t *testing.T) {
	db := newPooledDatabase(t)
	db.fill(t, 4)
	first := db.begin(t)
	wantClaimed(t, claim(t, first, next(2)), 1, 2)
	wantClaimed(t, claim(t, db.begin(t), next(2)), 3, 4)
	if err := first.Conn().Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the rows are free", func() bool {
		tx := db.begin(t)
		defer tx.Rollback(context.Background())
		return len(claim(t, tx, next(2))) == 2
	})
}

// What the page says of foreign keys.
func TestAnInsertThatRefersToAClaimedRowWaits(t *testing.T) {
	db := jobs(t, 2)
	db.server.Exec(db.name, "CREATE TABLE note (job bigint REFERENCES job)")
	claimed, referring := db.begin(t), db.begin(t)
	wantClaimed(t, claim(t, claimed, next(1)), 1)
	inserted := make(chan error, 1)
	go func() {
		_, err := referring.Exec(t.Context(), "INSERT INTO note VALUES (1)")
		inserted <- err
	}()
	db.waitsForLock(t, referring)
	commit(t, claimed)
	if err := <-inserted; err != nil {
		t.Fatal(err)
	}
	wantClaimed(t, claim(t, db.begin(t), next(2)), 2)
}
