package sqlfence

import (
	"context"
	"database/sql"

	"github.com/holdfastlock/holdfast/fence/internal/sqltext"
)

// Columns says where a table of the user's own keeps the fence of each row: for
// a resource that is one row, and is changed by one UPDATE.
//
//	report := sqlfence.Columns{Table: "report", Key: "id", Fence: "fence"}
//	result, err := tx.ExecContext(ctx, `UPDATE report SET body = $1, fence = $2
//		WHERE id = $3 AND `+report.Clause("$2", ""), body, lease.Fence(), id)
//	... // if no row was changed:
//	return sqlfence.Postgres.Why(ctx, tx, report, id, "", lease.Fence())
//
// All fields are put into statements as they are: they are names, in quotes
// where the database wants them, and never come from outside the program.
type Columns struct {
	Table string
	Key   string // the column that identifies a row
	Fence string // bigint NOT NULL DEFAULT 0
	// Owner is a column, NOT NULL DEFAULT '', for who has shown the fence. It may
	// be left out: then two owners with the same fence are taken for one. Its
	// collation must tell owners apart.
	Owner string
}

// Clause returns the condition, to be put behind WHERE … AND, under which a row
// accepts a fence. It is written with the placeholders that it is given: numbered
// ones, or question marks, whose arguments are then fence, fence, and, if there is
// an Owner column, owner. The UPDATE must also set the columns.
func (c Columns) Clause(shown, owner string) string { return sqltext.Columns(c).Clause(shown, owner) }

// Why says why an UPDATE with that Clause has changed no row, in the same
// transaction: a *fence.StaleError, a *fence.ConflictError, fence.ErrNoFence, or
// sql.ErrNoRows if there is no row of that key. Nil means that it was not the
// fence: another condition was false, or there was nothing to change, since MySQL
// does not count rows that it leaves as they were. The resource that the errors
// name is the table and the key.
func (d Dialect) Why(ctx context.Context, tx *sql.Tx, c Columns, key any, owner string, shown int64) error {
	columns := sqltext.Columns(c)
	var query string
	switch d {
	case Postgres, SQLite:
		query = columns.Mark("$1")
	case MySQL:
		query = columns.Mark("?") + sqltext.ForUpdate
	default:
		return d.unknown()
	}
	return columns.Judge(tx.QueryRowContext(ctx, query, key), key, owner, shown)
}
