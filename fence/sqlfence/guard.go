package sqlfence

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/holdfastlock/holdfast/fence"
)

// Guard is a fence.Guard that remembers in a database, for changes that are made
// elsewhere: it needs the table of Dialect.Schema. A change that is made in the
// same database is better off with Touch in its own transaction.
//
// The fence is committed before the change begins, and the database must keep
// what it has committed (in SQLite: synchronous FULL). While the change is made, a
// second transaction keeps the row of the resource locked; if its connection
// breaks, a later holder may be let in before the change has ended, and Do says
// so at the end. In SQLite that transaction keeps all other writers out of the
// file; filefence suits one machine better.
type Guard struct {
	db      *sql.DB
	dialect Dialect
}

var _ fence.Guard = (*Guard)(nil)

// NewGuard returns a Guard. It does no I/O; the caller closes db after its last
// use. A Do has one connection of db for as long as the change, so a change that
// needs connections too takes them from a pool of its own. A pool of pgx becomes
// a *sql.DB by its package stdlib.
func NewGuard(db *sql.DB, dialect Dialect) *Guard { return &Guard{db, dialect} }

// Touch implements fence.Guard.
func (g *Guard) Touch(ctx context.Context, resource, owner string, shown int64) error {
	return g.under(ctx, resource, owner, shown, func() error { return nil })
}

// Do implements fence.Guard.
func (g *Guard) Do(ctx context.Context, resource, owner string, shown int64, change func(context.Context) error) error {
	if err := g.Touch(ctx, resource, owner, shown); err != nil {
		return err
	}
	return g.under(ctx, resource, owner, shown, func() error { return change(ctx) })
}

// under commits a transaction that touches and then calls change. A context that
// ends, ends the wait for a connection and for the row; once the change has
// begun it no longer rolls back, which would open the resource.
func (g *Guard) under(ctx context.Context, resource, owner string, shown int64, change func() error) error {
	untilChange, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stop := context.AfterFunc(ctx, cancel)
	defer stop()
	tx, err := g.db.BeginTx(untilChange, g.options())
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := g.dialect.Touch(untilChange, tx, resource, owner, shown); err != nil {
		return err
	}
	if !stop() {
		return ctx.Err()
	}
	if err := change(); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("resource %q was not locked until the end: %w", resource, err)
	}
	return nil
}

// options asks for the level that does not fail where another was first.
func (g *Guard) options() *sql.TxOptions {
	if g.dialect == SQLite {
		return nil // knows one level only
	}
	return &sql.TxOptions{Isolation: sql.LevelReadCommitted}
}
