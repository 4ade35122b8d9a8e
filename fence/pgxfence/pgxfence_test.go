package pgxfence

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/holdfastlock/holdfast/fence"
	"github.com/holdfastlock/holdfast/fence/internal/fencetest"
	"github.com/holdfastlock/holdfast/internal/pgtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(pgtest.Main{M: m}) }

// newPool returns a pool on a database with the tables of the tests.
func newPool(t *testing.T) *pgxpool.Pool {
	t.Helper()
	server := pgtest.Shared(t)
	pool, err := pgxpool.New(t.Context(), server.URL(server.Database()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	for _, statement := range []string{
		Schema, Schema,
		"CREATE TABLE written (id bigserial PRIMARY KEY, resource text, fence bigint)",
		"CREATE TABLE sheet (name text PRIMARY KEY, fence bigint NOT NULL DEFAULT 0, holder text NOT NULL DEFAULT '')",
	} {
		if _, err := pool.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	return pool
}

func TestConformance(t *testing.T) {
	pool := newPool(t)
	fencetest.Run(t, fencetest.Resources{
		Touch: func(ctx context.Context, resource, owner string, shown int64) error {
			return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { return Touch(ctx, tx, resource, owner, shown) })
		},
		Append: func(ctx context.Context, resource, owner string, shown int64, between func() error) error {
			return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
				if err := Touch(ctx, tx, resource, owner, shown); err != nil {
					return err
				}
				if err := between(); err != nil {
					return err
				}
				_, err := tx.Exec(ctx, "INSERT INTO written (resource, fence) VALUES ($1, $2)", resource, shown)
				return err
			})
		},
		List: func(t *testing.T, resource string) []int64 {
			rows, _ := pool.Query(t.Context(), "SELECT fence FROM written WHERE resource = $1 ORDER BY id", resource)
			list, err := pgx.CollectRows(rows, pgx.RowTo[int64])
			if err != nil {
				t.Fatal(err)
			}
			return list
		},
		RollsBack: true,
	})
}

func TestAColumnOfTheUsersOwnRefusesAndSaysWhy(t *testing.T) {
	pool := newPool(t)
	if _, err := pool.Exec(t.Context(), "INSERT INTO sheet (name) VALUES ('with owner'), ('without')"); err != nil {
		t.Fatal(err)
	}
	owned := Columns{Table: "sheet", Key: "name", Fence: "fence", Owner: "holder"}
	plain := Columns{Table: "sheet", Key: "name", Fence: "fence"}
	update := func(c Columns, key, owner string, shown int64) error {
		return pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			tag, err := tx.Exec(t.Context(), "UPDATE sheet SET fence = $1, holder = $2 WHERE name = $3 AND "+c.Clause("$1", "$2"), shown, owner, key)
			if err != nil || tag.RowsAffected() == 1 {
				return err
			}
			return c.Why(t.Context(), tx, key, owner, shown)
		})
	}
	for _, step := range []struct {
		columns    Columns
		key, owner string
		shown      int64
		want       error
	}{
		{owned, "with owner", "a", 0, fence.ErrNoFence},
		{owned, "with owner", "a", -1, fence.ErrNoFence},
		{owned, "with owner", "b", 1 << 42, nil},
		{owned, "with owner", "b", 1 << 42, nil},
		{owned, "with owner", "a", 1 << 41, fence.ErrStale},
		{owned, "with owner", "a", 1 << 42, fence.ErrConflict},
		{owned, "other", "a", 1 << 43, pgx.ErrNoRows},
		{owned, "with owner", "a", 1 << 43, nil},
		{plain, "without", "a", 0, fence.ErrNoFence},
		{plain, "without", "b", 1 << 42, nil},
		{plain, "without", "a", 1 << 42, nil},
		{plain, "without", "a", 1 << 41, fence.ErrStale},
	} {
		if err := update(step.columns, step.key, step.owner, step.shown); !errors.Is(err, step.want) {
			t.Errorf("%s by %s with %d: %v, want %v", step.key, step.owner, step.shown, err, step.want)
		}
	}
}
