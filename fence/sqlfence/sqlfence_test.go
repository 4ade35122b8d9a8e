package sqlfence_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"

	"github.com/holdfastlock/holdfast/fence"
	"github.com/holdfastlock/holdfast/fence/sqlfence"
	"github.com/holdfastlock/holdfast/internal/pgtest"
)

// A transaction above READ COMMITTED that has read something sees the tables as
// they were then. The fence must not be compared with what was there then.
func TestAnOldSnapshotDoesNotLetAStaleFenceIn(t *testing.T) {
	for name, d := range map[string]*database{"Postgres": onPostgres(t, pgtest.Shared(t)), "MariaDB": onMariaDB(t)} {
		t.Run(name, func(t *testing.T) {
			touch := func(ctx context.Context, tx *sql.Tx, shown int64) error {
				return d.Touch(ctx, tx, "report", "a", shown)
			}
			show := func(shown int64) error {
				return d.under(t.Context(), sql.LevelDefault, func(tx *sql.Tx) error { return touch(t.Context(), tx, shown) })
			}
			if err := show(40); err != nil {
				t.Fatal(err)
			}
			err := d.under(t.Context(), sql.LevelRepeatableRead, func(tx *sql.Tx) error {
				var before int64
				if err := tx.QueryRow("SELECT fence FROM holdfast_fence").Scan(&before); err != nil {
					t.Fatal(err)
				}
				if err := show(42); err != nil {
					t.Fatal(err)
				}
				return touch(t.Context(), tx, 41)
			})
			if err == nil {
				t.Error("a stale fence was accepted")
			}
		})
	}
}

func TestANameOfTheUsersOwnColumnSaysWhyNoRowWasChanged(t *testing.T) {
	d := onSQLite(t)
	d.exec(t, "INSERT INTO sheet (name, fence, holder) VALUES ('report', 42, 'b')")
	withoutOwner := sheet
	withoutOwner.Owner = ""
	why := func(c sqlfence.Columns, key, owner string, shown int64) (err error) {
		_ = d.under(t.Context(), sql.LevelDefault, func(tx *sql.Tx) error {
			err = d.Why(t.Context(), tx, c, key, owner, shown)
			return err
		})
		return err
	}
	for name, c := range map[string]struct {
		err  error
		want error
	}{
		"stale":                       {why(sheet, "report", "a", 41), fence.ErrStale},
		"conflict":                    {why(sheet, "report", "a", 42), fence.ErrConflict},
		"equal fences without owner":  {why(withoutOwner, "report", "a", 42), nil},
		"stale without owner":         {why(withoutOwner, "report", "", 41), fence.ErrStale},
		"no such row":                 {why(sheet, "other", "a", 43), sql.ErrNoRows},
		"no fence":                    {why(sheet, "report", "a", 0), fence.ErrNoFence},
		"another condition was false": {why(sheet, "report", "b", 43), nil},
	} {
		if !errors.Is(c.err, c.want) {
			t.Errorf("%s: %v, want %v", name, c.err, c.want)
		}
	}
	var stale *fence.StaleError
	if errors.As(why(sheet, "report", "a", 41), &stale); stale == nil || stale.Resource != "sheet report" {
		t.Errorf("the row is called %+v", stale)
	}
}

func TestAnUnknownDialectIsAnError(t *testing.T) {
	d := onSQLite(t)
	const unknown sqlfence.Dialect = "oracle"
	for name, ask := range map[string]func(*sql.Tx) error{
		"touch": func(tx *sql.Tx) error { return unknown.Touch(t.Context(), tx, "report", "a", 1) },
		"why":   func(tx *sql.Tx) error { return unknown.Why(t.Context(), tx, sheet, "report", "a", 1) },
	} {
		if err := d.under(t.Context(), sql.LevelDefault, ask); err == nil || !strings.Contains(err.Error(), "oracle") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if unknown.Schema() != "" {
		t.Error("it has a schema")
	}
}

func TestAChangeIsNotLeftAloneWhenItsContextEnds(t *testing.T) {
	d := onPostgres(t, pgtest.Shared(t))
	guard := sqlfence.NewGuard(d.db.Load(), d.Dialect)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	err := guard.Do(ctx, "report", "a", 41, func(ctx context.Context) error {
		cancel()
		<-ctx.Done()
		later := d.under(t.Context(), sql.LevelDefault, func(tx *sql.Tx) error {
			if _, err := tx.Exec("SET LOCAL lock_timeout = 200"); err != nil {
				return err
			}
			return d.Touch(t.Context(), tx, "report", "b", 42)
		})
		if later == nil {
			t.Error("a later holder was let in during the change")
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestAGuardWhoseConnectionBreaksSaysSoAndStillRefusesStaleFences(t *testing.T) {
	d := onPostgres(t, pgtest.Shared(t))
	guard := sqlfence.NewGuard(d.db.Load(), d.Dialect)
	changed := false
	err := guard.Do(t.Context(), "report", "b", 42, func(context.Context) error {
		d.exec(t, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND state = 'idle in transaction'")
		changed = true
		return nil
	})
	if !changed || err == nil {
		t.Errorf("changed: %v; the error is %v", changed, err)
	}
	if err := guard.Touch(t.Context(), "report", "a", 41); !errors.Is(err, fence.ErrStale) {
		t.Errorf("a stale fence was answered with %v", err)
	}
}
