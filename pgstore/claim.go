package pgstore

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/holdfastlock/holdfast/driver"
)

// Claim takes rows of a table of yours for one transaction, such as the next
// jobs of a queue, with FOR UPDATE SKIP LOCKED: rows that another transaction
// has claimed are passed over and not waited for. Where the work is rows of the
// database anyway, it replaces the lock: there is no lease and nothing to renew.
//
// The transaction that has claimed the rows changes or deletes them, so that
// they no longer fit Where, and commits. Commit and rollback free the rows. So
// does a crash, as soon as the server notices that the connection is gone: at
// once when a process dies, after its tcp_keepalives_idle when a host does. What was
// done outside of the database meanwhile is not rolled back, and will be done
// again.
//
// What to know:
//
//   - The rows are no consistent view: what is locked is left out. A claim that
//     finds nothing says that there is nothing to be had now, not that all is done.
//   - Use READ COMMITTED. With a stricter isolation level, a row that was changed
//     since the transaction began ends it with SQLSTATE 40001.
//   - OrderBy is the order in which rows are offered, not that in which they are
//     finished. A row whose sort key changes meanwhile may be out of order.
//   - An index must serve Where and OrderBy, best a partial one (CREATE INDEX ON
//     job (due) WHERE done IS NULL). Without it each claim sorts the whole table,
//     and with it, still passes over all rows that others have claimed.
//   - Keep the transaction short and Limit small. While it is open, vacuum
//     removes no row that died after it began, in any table of the database; a
//     queue grows slow then. For work of many minutes, hold a lease instead.
//   - Inserts that refer to a claimed row by foreign key wait for the commit, and
//     a row that such an insert refers to is passed over until the insert commits.
//   - A process that is stopped keeps its rows as long as its connection lives.
//     The server's idle_in_transaction_session_timeout bounds that.
type Claim struct {
	// Table is the table, with its schema if need be: {"job"}, {"billing", "job"}.
	// Like all names here it is quoted, so upper and lower case differ.
	Table pgx.Identifier
	// Columns are what is returned of a row; all columns if empty.
	Columns []string
	// Where is a condition in SQL, with $1, $2, … for Args (or @name, where
	// Args is a pgx.NamedArgs). It becomes part of the statement as it is: values
	// from elsewhere belong into Args. Every row fits if it is empty.
	Where string
	Args  []any
	// OrderBy says which rows come first. Without it the order is anything.
	OrderBy []Order
	// Limit is how many rows are claimed at the most; at least 1.
	Limit int
}

// Order is a column to sort by.
type Order struct {
	Column     string
	Descending bool
}

// Rows claims rows and returns them: none if there are none to be had. Read or
// close them before anything else is done in tx, as with all pgx.Rows;
// pgx.CollectRows does. The error is that of pgx, or matches
// holdfast.ErrMisconfigured if the Claim is incomplete.
func (c Claim) Rows(ctx context.Context, tx pgx.Tx) (pgx.Rows, error) {
	query, err := c.query()
	if err != nil {
		return nil, err
	}
	return tx.Query(ctx, query, c.Args...)
}

func (c Claim) query() (string, error) {
	if err := c.validate(); err != nil {
		return "", &driver.Error{Kind: driver.ErrMisconfigured, Err: err}
	}
	columns := "*"
	if len(c.Columns) > 0 {
		columns = list(c.Columns, quoted)
	}
	query := "SELECT " + columns + " FROM " + c.Table.Sanitize()
	if c.Where != "" {
		query += " WHERE (" + c.Where + "\n)" // on a line of its own: Where may end in a comment
	}
	if len(c.OrderBy) > 0 {
		query += " ORDER BY " + list(c.OrderBy, Order.sql)
	}
	return fmt.Sprintf("%s LIMIT %d FOR UPDATE SKIP LOCKED", query, c.Limit), nil
}

func (c Claim) validate() error {
	if len(c.Table) == 0 {
		return fmt.Errorf("a Claim needs a Table")
	}
	if c.Limit < 1 {
		return fmt.Errorf("a Claim on %s needs a Limit of at least 1, not %d", c.Table.Sanitize(), c.Limit)
	}
	return nil
}

func (o Order) sql() string {
	if o.Descending {
		return quoted(o.Column) + " DESC"
	}
	return quoted(o.Column)
}

func quoted(column string) string { return pgx.Identifier{column}.Sanitize() }

func list[T any](items []T, sql func(T) string) string {
	texts := make([]string, len(items))
	for i, item := range items {
		texts[i] = sql(item)
	}
	return strings.Join(texts, ", ")
}
