package pgstore

import (
	"context"
	"fmt"

	"github.com/holdfastlock/holdfast/driver"
)

// TxLock waits for the lock of that name, which lasts as long as the
// transaction: commit and rollback free it, and so does the end of the
// connection. There is no lease, no fencing token and no row. TxLock is for
// short sections whose whole effect is in this database.
//
// It is Postgres' advisory lock on a 64-bit hash of the name, so that
//
//	SELECT pg_advisory_xact_lock(hashtextextended('name', 0))
//
// takes the same one by hand. It has nothing to do with a lease of that name.
// Two names with the same hash (of a thousand names, the odds that any two have
// it are 3 in 10^14) exclude each other, which costs waiting and no more.
//
// What to know:
//
//   - Use READ COMMITTED. With a stricter isolation level the transaction goes on
//     seeing the database as it was before it waited, without what the holder
//     before has changed.
//   - A wait ends with ctx; pgx then closes the connection. To keep it, SET LOCAL
//     lock_timeout before (SQLSTATE 55P03).
//   - Two transactions that take the same two locks in different orders are a
//     deadlock, which Postgres resolves by failing one (SQLSTATE 40P01).
//   - A process that is stopped holds the lock as long as its connection lives.
//     The server's idle_in_transaction_session_timeout bounds that.
//   - Each lock takes a place in a table of the server's memory (its
//     max_locks_per_transaction): take a few, not thousands.
//   - Rolling back to a savepoint frees the locks that were taken after it.
//
// It works behind a pool, and behind PgBouncer in session and in transaction mode,
// since a transaction keeps its connection. The session's locks (pg_advisory_lock)
// do not: the lock stays with a connection that somebody else uses next, and an
// unlock that is sent down another connection frees nothing.
//
// The error is that of the driver, and matches the context's if ctx has ended.
func TxLock(ctx context.Context, tx Tx, name string) error {
	return txLock(ctx, tx, name, `SELECT true FROM pg_advisory_xact_lock(hashtextextended($1, 0))`, new(bool))
}

// TryTxLock is TxLock without waiting: it says whether the transaction has the
// lock now. Asked again by the transaction that has it, the answer is true.
func TryTxLock(ctx context.Context, tx Tx, name string) (held bool, err error) {
	err = txLock(ctx, tx, name, `SELECT pg_try_advisory_xact_lock(hashtextextended($1, 0))`, &held)
	return held, err
}

func txLock(ctx context.Context, tx Tx, name, query string, held *bool) error {
	if err := driver.CheckName(name); err != nil {
		return err
	}
	if err := tx.QueryRow(ctx, query, name).Scan(held); err != nil {
		return fmt.Errorf("lock %q for a transaction: %w", name, err)
	}
	return nil
}
