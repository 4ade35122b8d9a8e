package pgstore

import (
	"context"
	"database/sql"

	"github.com/jackc/pgx/v5"
)

// Tx is a transaction of yours: a pgx.Tx, or a *sql.Tx by way of SQL.
type Tx interface {
	QueryRow(ctx context.Context, query string, args ...any) pgx.Row
	// Commit is never called. A pool or a connection has none, so neither can be
	// mistaken for a transaction: a lock taken there would be gone at once.
	Commit(ctx context.Context) error
}

// SQL makes a transaction of database/sql a Tx, whichever driver for Postgres
// it is from.
func SQL(tx *sql.Tx) Tx { return sqlTx{tx} }

type sqlTx struct{ *sql.Tx }

func (tx sqlTx) QueryRow(ctx context.Context, query string, args ...any) pgx.Row {
	return tx.QueryRowContext(ctx, query, args...)
}

func (tx sqlTx) Commit(context.Context) error { return tx.Tx.Commit() }
