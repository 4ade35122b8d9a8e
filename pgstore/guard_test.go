package pgstore_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/holdfastlock/holdfast"
	"github.com/holdfastlock/holdfast/pgstore"
)

// shortTTL is long enough for a busy machine to renew a lease in time, mostly.
const shortTTL = 500 * time.Millisecond

// newLocksDatabase is one that has the locks, too.
func newLocksDatabase(t *testing.T) *database {
	t.Helper()
	db := newDatabase(t)
	db.server.Exec(db.name, pgstore.Schema())
	return db
}

func (db *database) openStore(t *testing.T) *pgstore.Store {
	t.Helper()
	store, err := pgstore.Open(db.server.URL(db.name), pgstore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	return store
}

// locker is that of another process for each call: nothing is passed on between them.
func (db *database) locker(t *testing.T) *holdfast.Locker {
	t.Helper()
	locker, err := holdfast.New(db.openStore(t), holdfast.Config{TTL: shortTTL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { locker.Close(context.Background()) })
	return locker
}

func acquire(t *testing.T, l *holdfast.Locker, opts ...holdfast.AcquireOption) *holdfast.Lease {
	t.Helper()
	return got(t, acquiring(t, l, opts...))
}

type acquired struct {
	lease *holdfast.Lease
	err   error
}

// acquiring acquires in the background.
func acquiring(t *testing.T, l *holdfast.Locker, opts ...holdfast.AcquireOption) <-chan acquired {
	granted := make(chan acquired, 1)
	go func() {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		lease, err := l.Acquire(ctx, "account", opts...)
		granted <- acquired{lease, err}
	}()
	return granted
}

func got(t *testing.T, granted <-chan acquired) *holdfast.Lease {
	t.Helper()
	a := <-granted
	if a.err != nil {
		t.Fatal(a.err)
	}
	return a.lease
}

func mustGuard(t *testing.T, tx pgstore.Tx, lease *holdfast.Lease) {
	t.Helper()
	if err := pgstore.Guard(t.Context(), tx, lease); err != nil {
		t.Fatal(err)
	}
}

func wantLost(t *testing.T, err error, reason holdfast.LostReason) {
	t.Helper()
	var lost *holdfast.LostError
	if !errors.As(err, &lost) || !errors.Is(err, holdfast.ErrLost) || lost.Reason != reason || lost.Name != "account" {
		t.Errorf("the error is %v, want a loss because %v", err, reason)
	}
}

// wantGrantedAfter says that the lock is granted when the transaction has ended, and
// not before.
func wantGrantedAfter(t *testing.T, granted <-chan acquired, end func(context.Context) error) *holdfast.Lease {
	t.Helper()
	select {
	case a := <-granted:
		t.Fatalf("granted while the guarded transaction was open, %v", a.err)
	default:
	}
	if err := end(t.Context()); err != nil {
		t.Fatal(err)
	}
	return got(t, granted)
}

// pastTTLs waits until a lease that was got at begin would have ended n times.
func pastTTLs(t *testing.T, n int, begin time.Time) {
	t.Helper()
	eventually(t, "TTLs pass", func() bool { return time.Since(begin) > time.Duration(n)*shortTTL })
}

func TestALeaseIsKeptThroughATransactionOfThreeTTLs(t *testing.T) {
	db := newLocksDatabase(t)
	lease := acquire(t, db.locker(t))
	begin := time.Now()
	tx := db.begin(t)
	mustGuard(t, tx, lease)
	granted := acquiring(t, db.locker(t))
	pastTTLs(t, 3, begin)
	if err := lease.Confirm(t.Context()); err != nil {
		t.Errorf("it was not renewed beside the transaction: %v", err)
	}
	mustGuard(t, tx, lease)
	next := wantGrantedAfter(t, granted, func(ctx context.Context) error {
		if err := tx.Commit(ctx); err != nil {
			return err
		}
		return lease.Release(ctx)
	})
	if next.Fence() <= lease.Fence() {
		t.Errorf("fence %d after %d", next.Fence(), lease.Fence())
	}
}

func TestATakeOverOfAnEndedLeaseWaitsForTheTransaction(t *testing.T) {
	for name, end := range map[string]func(pgx.Tx) func(context.Context) error{
		"commit":   func(tx pgx.Tx) func(context.Context) error { return tx.Commit },
		"rollback": func(tx pgx.Tx) func(context.Context) error { return tx.Rollback },
		"crash":    func(tx pgx.Tx) func(context.Context) error { return tx.Conn().Close },
	} {
		t.Run(name, func(t *testing.T) {
			db := newLocksDatabase(t)
			lease := acquire(t, db.locker(t), holdfast.WithoutKeepAlive())
			begin := time.Now()
			tx := db.begin(t)
			mustGuard(t, tx, lease)
			granted := acquiring(t, db.locker(t))
			<-lease.Context().Done()
			pastTTLs(t, 3, begin)
			wantGrantedAfter(t, granted, end(tx))
		})
	}
}

func TestAReleaseBeforeTheCommitLetsNobodyIn(t *testing.T) {
	db := newLocksDatabase(t)
	l := db.locker(t)
	lease := acquire(t, l)
	tx := db.begin(t)
	mustGuard(t, tx, lease)
	here, there := acquiring(t, l), acquiring(t, db.locker(t))
	if err := lease.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	db.takeOverWaits(t)
	granted := either(here, there)
	next := wantGrantedAfter(t, granted, tx.Commit)
	if next.Fence() <= lease.Fence() {
		t.Errorf("fence %d after %d", next.Fence(), lease.Fence())
	}
	if err := next.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	got(t, granted)
}

// takeOverWaits returns once a grant waits for a guarded transaction.
func (db *database) takeOverWaits(t *testing.T) {
	t.Helper()
	eventually(t, "a take-over waits", func() bool {
		return db.server.Value(db.name, waiting+" AND datname = '"+db.name+"'") != "0"
	})
}

// either is what is granted first, and then the other.
func either(a, b <-chan acquired) <-chan acquired {
	both := make(chan acquired, 2)
	go func() { both <- <-a }()
	go func() { both <- <-b }()
	return both
}

func TestAnIdleTransactionIsEndedByTheServerAndCommitsNothing(t *testing.T) {
	db := newLocksDatabase(t)
	lease := acquire(t, db.locker(t), holdfast.WithoutKeepAlive())
	tx := db.begin(t)
	mustExec(t, tx, "SET LOCAL idle_in_transaction_session_timeout = '200ms'")
	mustGuard(t, tx, lease)
	acquire(t, db.locker(t))
	if err := tx.Commit(t.Context()); err == nil {
		t.Error("it was committed although another has the lock")
	}
}

func TestALeaseThatTheDatabaseDoesNotKnowGuardsNothing(t *testing.T) {
	for change, reason := range map[string]holdfast.LostReason{
		"UPDATE holdfast_lease SET token = 'another', fence = fence + 1": holdfast.LostTaken,
		"UPDATE holdfast_lease SET token = ''":                           holdfast.LostGone,
		"UPDATE holdfast_lease SET expires_at = clock_timestamp()":       holdfast.LostGone,
		"DELETE FROM holdfast_lease":                                     holdfast.LostGone,
	} {
		t.Run(change, func(t *testing.T) {
			db := newLocksDatabase(t)
			lease := acquire(t, db.locker(t), holdfast.WithTTL(time.Hour))
			db.server.Exec(db.name, change)
			tx := db.begin(t)
			wantLost(t, pgstore.Guard(t.Context(), tx, lease), reason)
			mustExec(t, tx, "SELECT 1") // it goes on, and has nothing locked
			db.server.Exec(db.name, "UPDATE holdfast_lease SET fence = fence + 1")
		})
	}
}

func TestALeaseThatHasEndedGuardsNothing(t *testing.T) {
	db := newLocksDatabase(t)
	lease := acquire(t, db.locker(t), holdfast.WithoutKeepAlive())
	<-lease.Context().Done()
	wantLost(t, pgstore.Guard(t.Context(), db.begin(t), lease), holdfast.LostExpired)
	next := acquire(t, db.locker(t))
	mustGuard(t, db.begin(t), next)
	if err := next.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := pgstore.Guard(t.Context(), db.begin(t), next); err == nil || errors.Is(err, holdfast.ErrLost) {
		t.Errorf("of a released lease: %v", err)
	}
}

func TestOfALeaseThatIsPassedOnTheLatterGuards(t *testing.T) {
	db := newLocksDatabase(t)
	l := db.locker(t)
	// A lease is passed on soon after its grant only, which a busy machine may miss.
	eventually(t, "a lease is passed on", func() bool {
		first := acquire(t, l)
		waiters := either(acquiring(t, l), acquiring(t, l))
		if _, err := l.Inspect(t.Context(), "account"); err != nil { // they line up meanwhile
			t.Fatal(err)
		}
		if err := first.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		before := got(t, waiters)
		before.Release(t.Context())
		next := got(t, waiters)
		defer next.Release(t.Context())
		if before.Token() != "" {
			return false
		}
		tx := db.begin(t)
		mustGuard(t, tx, next)
		if err := pgstore.Guard(t.Context(), db.begin(t), before); err == nil || errors.Is(err, holdfast.ErrLost) {
			t.Errorf("the one before: %v", err)
		}
		commit(t, tx)
		return true
	})
}

func TestOneWhoWantsAGuardedLockIsToldWhoHoldsIt(t *testing.T) {
	db := newLocksDatabase(t)
	lease := acquire(t, db.locker(t), holdfast.WithTTL(time.Hour))
	mustGuard(t, db.begin(t), lease)
	_, err := db.locker(t).TryAcquire(t.Context(), "account")
	var held *holdfast.HeldError
	if !errors.As(err, &held) || held.Holder.Token != lease.Token() {
		t.Errorf("told %v", err)
	}
}

func TestAGuardOfDatabaseSQL(t *testing.T) {
	db := newLocksDatabase(t)
	lease := acquire(t, db.locker(t))
	tx := db.beginSQL(t)
	mustGuard(t, pgstore.SQL(tx), lease)
	granted := acquiring(t, db.locker(t))
	if err := lease.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	db.takeOverWaits(t)
	wantGrantedAfter(t, granted, func(context.Context) error { return tx.Commit() })
	wantLost(t, pgstore.Guard(t.Context(), pgstore.SQL(db.beginSQL(t)), db.unaware(t)), holdfast.LostTaken)
}

// unaware is a lease that was taken over and has not noticed.
func (db *database) unaware(t *testing.T) *holdfast.Lease {
	t.Helper()
	db.server.Exec(db.name, "DELETE FROM holdfast_lease")
	lease := acquire(t, db.locker(t), holdfast.WithTTL(time.Hour))
	db.server.Exec(db.name, "UPDATE holdfast_lease SET token = 'another', fence = fence + 1")
	return lease
}

func TestAGuardWorksBehindAPooler(t *testing.T) {
	db := newPooledDatabase(t)
	db.server.Exec(db.name, pgstore.Schema())
	lease := acquire(t, db.locker(t))
	tx, idle := db.begin(t), db.begin(t)
	mustGuard(t, tx, lease)
	granted := acquiring(t, db.locker(t))
	if err := lease.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	db.takeOverWaits(t)
	wantGrantedAfter(t, granted, tx.Commit)
	wantLost(t, pgstore.Guard(t.Context(), idle, db.unaware(t)), holdfast.LostTaken)
}

var strict = []pgx.TxIsoLevel{pgx.RepeatableRead, pgx.Serializable}

func TestAStricterTransactionIsGuardedThoughTheLeaseWasRenewedSinceItBegan(t *testing.T) {
	for _, level := range strict {
		t.Run(string(level), func(t *testing.T) {
			db := newLocksDatabase(t)
			lease := acquire(t, db.locker(t), holdfast.WithTTL(time.Hour))
			tx := db.beginAt(t, level)
			value[int](t, tx, "SELECT 1")
			if err := lease.Extend(t.Context(), 2*time.Hour); err != nil {
				t.Fatal(err)
			}
			mustGuard(t, tx, lease)
			granted := acquiring(t, db.locker(t))
			if err := lease.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
			db.takeOverWaits(t)
			wantGrantedAfter(t, granted, tx.Commit)
		})
	}
}

func TestAStricterTransactionFailsIfTheLeaseWasTakenOverSinceItBegan(t *testing.T) {
	for _, level := range strict {
		t.Run(string(level), func(t *testing.T) {
			db := newLocksDatabase(t)
			lease := acquire(t, db.locker(t), holdfast.WithTTL(time.Hour))
			tx := db.beginAt(t, level)
			value[int](t, tx, "SELECT 1")
			db.server.Exec(db.name, "UPDATE holdfast_lease SET token = 'another', fence = fence + 1")
			err := pgstore.Guard(t.Context(), tx, lease)
			if failed := (*pgconn.PgError)(nil); !errors.As(err, &failed) || failed.Code != "40001" {
				t.Errorf("the error is %v", err)
			}
			wantLost(t, pgstore.Guard(t.Context(), db.beginAt(t, level), lease), holdfast.LostTaken)
		})
	}
}

// What the page says of calling Guard first.
func TestAStricterTransactionJudgesTheLeaseByItsFirstStatement(t *testing.T) {
	db := newLocksDatabase(t)
	lease := acquire(t, db.locker(t))
	begin := time.Now()
	tx := db.beginAt(t, pgx.RepeatableRead)
	value[int](t, tx, "SELECT 1")
	pastTTLs(t, 2, begin)
	wantLost(t, pgstore.Guard(t.Context(), tx, lease), holdfast.LostGone)
	mustGuard(t, db.beginAt(t, pgx.RepeatableRead), lease)
}
