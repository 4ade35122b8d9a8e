// Package sqlfence lets a database refuse the writes of stale lock holders,
// through database/sql: Postgres, SQLite, MySQL and MariaDB. For pgx itself there
// is pgxfence.
//
// The fence is checked in the transaction that writes, so that the check and the
// change are one step, and are kept or lost together:
//
//	tx, err := db.BeginTx(ctx, nil)
//	...
//	defer tx.Rollback()
//	err = sqlfence.Postgres.Touch(ctx, tx, "report", owner, lease.Fence())
//	if err != nil {
//		return err // *fence.StaleError: a later holder was here
//	}
//	... // read and write, in tx
//	return tx.Commit()
//
// Touch keeps the largest fence of each resource in a table of its own,
// holdfast_fence (see Dialect.Schema), and locks its row until the transaction
// ends. A later holder waits for that, and an earlier one is refused after it.
// It works at every isolation level, READ COMMITTED included; above that a
// transaction may fail with the database's own error of serialization, as any
// other, and is tried again from its beginning.
//
// Touch comes first, before anything is read: what was read before may be from
// the time before a successor's writes. If the transaction is rolled back, the
// fence was not seen. That is right, since nothing was written under it; but a
// holder whose work takes several transactions touches in each of them.
//
// Those who have the fence in a column of their own row can leave the table out:
// see Columns. Guard is for changes that are not in the database.
//
// Rows of holdfast_fence stay. Whoever deletes one, or restores it from a backup
// without the data that it protects, lets every fence in again.
package sqlfence

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/holdfastlock/holdfast/fence"
	"github.com/holdfastlock/holdfast/fence/internal/sqltext"
)

// Dialect is the SQL of a database.
type Dialect string

// The dialects. MySQL is that of MariaDB, too.
const (
	Postgres Dialect = "postgres"
	SQLite   Dialect = "sqlite"
	MySQL    Dialect = "mysql"
)

// Schema returns the statement that makes the table, unless it exists. It is the
// empty text for a Dialect that does not exist.
func (d Dialect) Schema() string {
	switch d {
	case Postgres, SQLite:
		return sqltext.Schema
	case MySQL:
		return sqltext.SchemaMySQL
	}
	return ""
}

// Touch shows a fence to the resource, within the caller's transaction: from its
// commit on, every smaller one is refused. Until then the transaction has the
// resource for itself. Owner says who holds the lease, in a way that no two
// leases share, but not by the lease's token, which is a secret. Resource and
// owner are at most 512 bytes in MySQL.
//
// The error is a *fence.StaleError, a *fence.ConflictError, fence.ErrNoFence, or
// that of the database; after any of them roll back. In SQLite a transaction that
// has read before it touches may fail as busy.
func (d Dialect) Touch(ctx context.Context, tx *sql.Tx, resource, owner string, shown int64) error {
	if shown <= 0 {
		return fence.ErrNoFence // and nothing for the table
	}
	switch d {
	case Postgres, SQLite:
		return sqltext.Judge(tx.QueryRowContext(ctx, sqltext.Touch, resource, shown, owner), resource, owner, shown)
	case MySQL:
		if _, err := tx.ExecContext(ctx, sqltext.TouchMySQL, resource, shown, owner); err != nil {
			return err
		}
		return sqltext.Judge(tx.QueryRowContext(ctx, sqltext.MarkMySQL, resource), resource, owner, shown)
	}
	return d.unknown()
}

func (d Dialect) unknown() error {
	return fmt.Errorf("unknown dialect %q of SQL: use sqlfence.Postgres, SQLite or MySQL", string(d))
}
