package pgstore_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/holdfastlock/holdfast/driver"
	"github.com/holdfastlock/holdfast/pgstore"
)

func TestTwoTransactionsDoNotHaveALockTogether(t *testing.T) {
	db := newDatabase(t)
	first := db.begin(t)
	mustTxLock(t, first, "report")
	if tryTxLock(t, db.begin(t), "report") {
		t.Error("another transaction has the lock, too")
	}
	if !tryTxLock(t, db.begin(t), "invoice") {
		t.Error("a lock of another name is refused")
	}
	if tryTxLock(t, first, "invoice") {
		t.Error("another transaction has the lock that was got by trying, too")
	}
	if !tryTxLock(t, first, "report") {
		t.Error("the transaction that has the lock is refused it")
	}
}

func TestALockLastsUntilItsTransactionEnds(t *testing.T) {
	for name, end := range map[string]func(context.Context, pgx.Tx) error{
		"commit":           func(ctx context.Context, tx pgx.Tx) error { return tx.Commit(ctx) },
		"rollback":         func(ctx context.Context, tx pgx.Tx) error { return tx.Rollback(ctx) },
		"connection ended": func(ctx context.Context, tx pgx.Tx) error { return tx.Conn().Close(ctx) },
	} {
		t.Run(name, func(t *testing.T) {
			db := newDatabase(t)
			first, second := db.begin(t), db.begin(t)
			mustTxLock(t, first, "report")
			locked := locking(t, second, "report")
			db.waitsForLock(t, second)
			if err := end(t.Context(), first); err != nil {
				t.Fatal(err)
			}
			if err := <-locked; err != nil {
				t.Error(err)
			}
		})
	}
}

func TestALockIsFreeOnceItsConnectionWasKilled(t *testing.T) {
	db := newDatabase(t)
	first, second := db.begin(t), db.begin(t)
	mustTxLock(t, first, "report")
	db.server.Exec(db.name, "SELECT pg_terminate_backend("+pid(first)+")")
	mustTxLock(t, second, "report")
	if err := first.Commit(t.Context()); err == nil {
		t.Error("a transaction whose connection was killed was committed")
	}
}

func TestAWaitForALockEndsWithItsContext(t *testing.T) {
	db := newDatabase(t)
	first, second := db.begin(t), db.begin(t)
	mustTxLock(t, first, "report")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := pgstore.TxLock(ctx, second, "report"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the error is %v", err)
	}
	eventually(t, "nobody waits", func() bool {
		return db.server.Value(db.name, waiting+" AND datname = '"+db.name+"'") == "0"
	})
	commit(t, first) // undisturbed
}

func TestAWaitForALockEndsByLockTimeoutAndKeepsTheConnection(t *testing.T) {
	db := newDatabase(t)
	first, second := db.begin(t), db.begin(t)
	mustTxLock(t, first, "report")
	mustExec(t, second, "SET LOCAL lock_timeout = '50ms'")
	err := pgstore.TxLock(t.Context(), second, "report")
	if refused := (*pgconn.PgError)(nil); !errors.As(err, &refused) || refused.Code != "55P03" {
		t.Errorf("the error is %v", err)
	}
	if err := second.Rollback(t.Context()); err != nil || second.Conn().IsClosed() {
		t.Errorf("the connection is closed, or %v", err)
	}
}

func TestALockOfDatabaseSQLIsTheSameAndIsTakenByHandToo(t *testing.T) {
	db := newDatabase(t)
	first := db.begin(t)
	mustExec(t, first, "SELECT pg_advisory_xact_lock(hashtextextended('report', 0))")
	if tryTxLock(t, pgstore.SQL(db.beginSQL(t)), "report") {
		t.Error("database/sql has another lock")
	}
	if err := first.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	tx := db.beginSQL(t)
	mustTxLock(t, pgstore.SQL(tx), "report")
	if tryTxLock(t, db.begin(t), "report") {
		t.Error("pgx has another lock")
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	mustTxLock(t, db.begin(t), "report")
}

// The first statement of a transaction that is stricter than READ COMMITTED
// fixes what it sees, even if that statement then waits.
func TestOnlyReadCommittedSeesWhatTheHolderBeforeHasDone(t *testing.T) {
	for level, want := range map[pgx.TxIsoLevel]int{
		pgx.ReadCommitted: 1, pgx.RepeatableRead: 0, pgx.Serializable: 0,
	} {
		t.Run(string(level), func(t *testing.T) {
			db := newDatabase(t)
			db.server.Exec(db.name, "CREATE TABLE done (n int)")
			first, second := db.begin(t), db.beginAt(t, level)
			mustTxLock(t, first, "report")
			locked := locking(t, second, "report")
			db.waitsForLock(t, second)
			mustExec(t, first, "INSERT INTO done VALUES (1)")
			commit(t, first)
			if err := <-locked; err != nil {
				t.Fatal(err)
			}
			if got := value[int](t, second, "SELECT count(*) FROM done"); got != want {
				t.Errorf("it sees %d of 1 rows, want %d", got, want)
			}
		})
	}
}

func TestALockWorksBehindAPooler(t *testing.T) {
	db := newPooledDatabase(t)
	first, second := db.begin(t), db.begin(t)
	mustTxLock(t, first, "report")
	if tryTxLock(t, second, "report") {
		t.Error("another transaction has the lock, too")
	}
	commit(t, first)
	mustTxLock(t, second, "report")
	commit(t, second)
	if n := db.server.Value(db.name, advisory); n != "0" {
		t.Errorf("%s locks are left after the transactions", n)
	}
}

// This is what TxLock is not.
func TestALockOfTheSessionLeaksBehindAPooler(t *testing.T) {
	db := newPooledDatabase(t)
	conn := db.connect(t)
	if _, err := conn.Exec(t.Context(), "SELECT pg_advisory_lock(1)"); err != nil {
		t.Fatal(err)
	}
	if err := conn.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := db.server.Value(db.name, advisory); n != "1" {
		t.Errorf("%s locks are left after the client has gone, expected the one that leaks", n)
	}
}

func TestANameThatIsNoneIsRefused(t *testing.T) {
	tx := newDatabase(t).begin(t)
	var refused *driver.NameError
	if err := pgstore.TxLock(t.Context(), tx, ""); !errors.As(err, &refused) {
		t.Errorf("the error is %v", err)
	}
	mustTxLock(t, tx, "report") // it goes on
}

const (
	advisory = `SELECT count(*)::text FROM pg_locks
		WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`
	waiting = `SELECT count(*)::text FROM pg_stat_activity WHERE wait_event_type = 'Lock'`
)

func mustTxLock(t *testing.T, tx pgstore.Tx, name string) {
	t.Helper()
	if err := <-locking(t, tx, name); err != nil {
		t.Fatal(err)
	}
}

// locking locks in the background.
func locking(t *testing.T, tx pgstore.Tx, name string) <-chan error {
	locked := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		locked <- pgstore.TxLock(ctx, tx, name)
	}()
	return locked
}

func tryTxLock(t *testing.T, tx pgstore.Tx, name string) bool {
	t.Helper()
	held, err := pgstore.TryTxLock(t.Context(), tx, name)
	if err != nil {
		t.Fatal(err)
	}
	return held
}
