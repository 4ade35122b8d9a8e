// Package pgxfence lets Postgres refuse the writes of stale lock holders, through
// pgx. What it does, and how it is to be used, is said in package sqlfence, which
// has the same names for database/sql, and uses the same table:
//
//	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
//		if err := pgxfence.Touch(ctx, tx, "report", owner, lease.Fence()); err != nil {
//			return err // *fence.StaleError: a later holder was here
//		}
//		... // read and write, in tx
//	})
package pgxfence

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/holdfastlock/holdfast/fence"
	"github.com/holdfastlock/holdfast/fence/internal/sqltext"
)

// Schema is the statement that makes the table, unless it exists.
const Schema = sqltext.Schema

// Touch shows a fence to the resource, within the caller's transaction: from its
// commit on, every smaller one is refused. Until then the transaction has the
// resource for itself. Owner says who holds the lease, in a way that no two
// leases share, but not by the lease's token, which is a secret.
//
// The error is a *fence.StaleError, a *fence.ConflictError, fence.ErrNoFence, or
// that of the database; after any of them roll back.
func Touch(ctx context.Context, tx pgx.Tx, resource, owner string, shown int64) error {
	if shown <= 0 {
		return fence.ErrNoFence
	}
	return sqltext.Judge(tx.QueryRow(ctx, sqltext.Touch, resource, shown, owner), resource, owner, shown)
}

// Columns says where a table of the user's own keeps the fence of each row: for
// a resource that is one row, and is changed by one UPDATE. All fields are put
// into statements as they are: they are names, in quotes where Postgres wants
// them, and never come from outside the program.
type Columns struct {
	Table string
	Key   string // the column that identifies a row
	Fence string // bigint NOT NULL DEFAULT 0
	// Owner is a column, text NOT NULL DEFAULT '', for who has shown the fence. It
	// may be left out: then two owners with the same fence are taken for one.
	Owner string
}

// Clause returns the condition, to be put behind WHERE … AND, under which a row
// accepts a fence. It is written with the placeholders that it is given, such as
// $2 and $3. The UPDATE must also set the columns.
func (c Columns) Clause(shown, owner string) string { return sqltext.Columns(c).Clause(shown, owner) }

// Why says why an UPDATE with that Clause has changed no row, in the same
// transaction: a *fence.StaleError, a *fence.ConflictError, fence.ErrNoFence, or
// pgx.ErrNoRows if there is no row of that key. Nil means that it was not the
// fence: another condition was false. The resource that the errors name is the
// table and the key.
func (c Columns) Why(ctx context.Context, tx pgx.Tx, key any, owner string, shown int64) error {
	columns := sqltext.Columns(c)
	return columns.Judge(tx.QueryRow(ctx, columns.Mark("$1"), key), key, owner, shown)
}
