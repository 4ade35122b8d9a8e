package pgstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/holdfastlock/holdfast"
)

// Guard ties a transaction of yours to a lease. Until the transaction ends,
// nobody else is granted the lock, even if the lease ends meanwhile: a take-over
// waits for the commit or the rollback. So two guarded transactions of two
// holders never both commit what the other has not seen, whatever is paused, cut
// off or killed, and whatever the clocks say. It takes a Locker whose store is the
// database of the transaction, and binds only transactions that call it.
//
// Acquire the lease, begin the transaction, and call Guard first in it:
//
//	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
//		if err := pgstore.Guard(ctx, tx, lease); err != nil {
//			return err // and the transaction is rolled back
//		}
//		_, err := tx.Exec(ctx, "UPDATE account SET …")
//		return err
//	})
//
// The error is the cause of the end of the lease's context if that has ended, and
// a *holdfast.LostError if the database says that the lease is over; both ways
// errors.Is(err, holdfast.ErrLost) is true for a lease that was lost. Otherwise
// it is the driver's. After any error, roll back.
//
// What to know:
//
//   - The lease is renewed as ever while the transaction is open, and is not
//     lost however long that takes. Others who want the lock meanwhile are told
//     that it is held, if need be after a second.
//   - A holder that is stopped in a guarded transaction keeps the others out as
//     long as its connection lives. The server's idle_in_transaction_session_timeout
//     bounds that, and ends the transaction.
//   - Guard asks for the lease's token (Lease.Token), so the lease is not passed on
//     inside the process: also after a Release that comes before the commit, the
//     next holder waits for the commit. A lease that was passed on before is
//     refused, as one that was released.
//   - READ COMMITTED is best. With a stricter isolation level, a take-over after
//     the transaction's first statement ends it with SQLSTATE 40001 (tried
//     again, the lease is lost); and what counts is the lease's end as it was at the
//     first statement, so that Guard after a TTL of other work says lost.
//   - Rolling back to a savepoint that is older than Guard undoes it.
//   - Whoever has the token, as with Locker.Resume, holds the same lease. Their
//     transactions don't exclude each other.
//   - The role needs SELECT and UPDATE on the table holdfast_lease.
func Guard(ctx context.Context, tx Tx, lease *holdfast.Lease) error {
	token := lease.Token()
	if ended := context.Cause(lease.Context()); ended != nil {
		return ended
	}
	if token == "" {
		return errReleased
	}
	var mine bool
	err := tx.QueryRow(ctx, guardLease, lease.Name(), token).Scan(&mine)
	switch {
	case errors.Is(err, sql.ErrNoRows): // pgx.ErrNoRows is one, too
		return whyLost(ctx, tx, lease, token)
	case err != nil:
		return fmt.Errorf("guard by lock %q: %w", lease.Name(), err)
	}
	return nil
}

// errReleased is for a lease that is just being passed on: its token is gone
// before its context ends.
var errReleased = errors.New("lease was released")

// FOR KEY SHARE, since the unique index on (name, fence) makes the fence a part of
// a key: a grant changes it and has to wait, a renewal does not and goes through.
// FOR SHARE would hold up renewals, too. The token is that of all leases that a
// grant is passed on to, and of no other grant; their fences are those from
// some number up to the row's.
const (
	guardLease = `SELECT true FROM holdfast_lease
		WHERE name = $1 AND token = $2 AND expires_at >= clock_timestamp() FOR KEY SHARE`
	leaseIsTaken = `SELECT EXISTS (SELECT FROM holdfast_lease
		WHERE name = $1 AND token NOT IN ('', $2) AND expires_at >= clock_timestamp())`
)

func whyLost(ctx context.Context, tx Tx, lease *holdfast.Lease, token string) error {
	lost := &holdfast.LostError{Name: lease.Name(), Fence: lease.Fence(), Reason: holdfast.LostGone}
	var taken bool
	if err := tx.QueryRow(ctx, leaseIsTaken, lease.Name(), token).Scan(&taken); err != nil {
		lost.Err = err
	}
	if taken {
		lost.Reason = holdfast.LostTaken
	}
	return lost
}
