// Package sqltext has the statements of sqlfence and pgxfence, and the reading
// of what they return.
package sqltext

import (
	"fmt"

	"github.com/holdfastlock/holdfast/fence"
)

// Schema makes the table of fences, in Postgres and SQLite.
const Schema = `CREATE TABLE IF NOT EXISTS holdfast_fence (
	resource text PRIMARY KEY NOT NULL,
	fence bigint NOT NULL,
	owner text NOT NULL
)`

// SchemaMySQL makes it in MySQL and MariaDB. Binary texts are compared byte by
// byte: with the usual collations a resource "Report" would be "report".
const SchemaMySQL = `CREATE TABLE IF NOT EXISTS holdfast_fence (
	resource varbinary(512) PRIMARY KEY NOT NULL,
	fence bigint NOT NULL,
	owner varbinary(512) NOT NULL
) ENGINE=InnoDB`

// Touch shows a fence, in Postgres and SQLite, and returns the mark that is then
// in the table. It locks the row also where it leaves it as it was, and waits
// until no other transaction has it locked; it then sees what that one has
// committed, also in Postgres under READ COMMITTED.
const Touch = `INSERT INTO holdfast_fence AS seen (resource, fence, owner) VALUES ($1, $2, $3)
ON CONFLICT (resource) DO UPDATE SET
	fence = CASE WHEN excluded.fence > seen.fence THEN excluded.fence ELSE seen.fence END,
	owner = CASE WHEN excluded.fence > seen.fence THEN excluded.owner ELSE seen.owner END
RETURNING fence, owner`

// TouchMySQL does the same in MySQL and MariaDB, but returns nothing. The owner
// comes first, since an assignment sees the result of those before it.
const TouchMySQL = `INSERT INTO holdfast_fence (resource, fence, owner) VALUES (?, ?, ?)
ON DUPLICATE KEY UPDATE
	owner = IF(VALUES(fence) > fence, VALUES(owner), owner),
	fence = GREATEST(VALUES(fence), fence)`

// ForUpdate makes MySQL read a row as it is, and not as it was when the
// transaction first read anything.
const ForUpdate = ` FOR UPDATE`

// MarkMySQL returns the mark of a resource.
const MarkMySQL = `SELECT fence, owner FROM holdfast_fence WHERE resource = ?` + ForUpdate

// Row is a *sql.Row or a pgx.Row.
type Row interface{ Scan(into ...any) error }

// Judge reads a mark and compares it with what was shown. The mark may be the one
// from before, or already the one that was shown.
func Judge(row Row, resource, owner string, shown int64) error {
	var mark fence.Mark
	if err := row.Scan(&mark.Fence, &mark.Owner); err != nil {
		return err
	}
	return mark.Check(resource, owner, shown)
}

// Columns are those of a table of the user's own. All are texts of SQL.
type Columns struct{ Table, Key, Fence, Owner string }

// Clause is the condition of an UPDATE under which the fence is accepted. The
// column comes first, so that Postgres takes the type of $n from it.
func (c Columns) Clause(shown, owner string) string {
	if c.Owner == "" {
		return fmt.Sprintf("(%s <= %s AND %s > 0)", c.Fence, shown, shown)
	}
	return fmt.Sprintf("(%s < %s OR (%s = %s AND %s = %s))", c.Fence, shown, c.Fence, shown, c.Owner, owner)
}

// Mark returns the query for the mark of a row, with a placeholder for its key.
func (c Columns) Mark(placeholder string) string {
	return fmt.Sprintf("SELECT %s, %s FROM %s WHERE %s = %s", c.Fence, c.owner(), c.Table, c.Key, placeholder)
}

func (c Columns) owner() string {
	if c.Owner == "" {
		return "''"
	}
	return c.Owner
}

// Judge reads the mark of a row of the user's own.
func (c Columns) Judge(row Row, key any, owner string, shown int64) error {
	if c.Owner == "" {
		owner = "" // as the mark has it: equal fences are the same holder's
	}
	return Judge(row, fmt.Sprintf("%s %v", c.Table, key), owner, shown)
}
