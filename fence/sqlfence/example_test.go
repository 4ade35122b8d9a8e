package sqlfence_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/holdfastlock/holdfast"
	"github.com/holdfastlock/holdfast/fence"
	"github.com/holdfastlock/holdfast/fence/sqlfence"
	"github.com/holdfastlock/holdfast/memstore"
)

// A holder that is paused past its TTL comes back when another has booked. Its
// transaction is refused, and books nothing.
func Example() {
	ctx := context.Background()
	db, remove := ledger()
	defer remove()
	book := func(lease *holdfast.Lease, owner string, amount int) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		if err := sqlfence.SQLite.Touch(ctx, tx, "account 7", owner, lease.Fence()); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `INSERT INTO booking (amount) VALUES ($1)`, amount); err != nil {
			return err
		}
		return tx.Commit()
	}

	store := memstore.New()
	locker, _ := holdfast.New(store, holdfast.Config{})
	defer locker.Close(ctx)
	first, _ := locker.TryAcquire(ctx, "account 7")
	defer first.Release(ctx)
	store.Advance(time.Minute) // the first one sleeps
	second, _ := locker.TryAcquire(ctx, "account 7")
	defer second.Release(ctx)

	fmt.Println("second:", book(second, "host-2/4712", 100))
	err := book(first, "host-1/4711", 100)
	fmt.Println("first, too late:", errors.Is(err, fence.ErrStale))
	var bookings int
	db.QueryRow(`SELECT count(*) FROM booking`).Scan(&bookings)
	fmt.Println("bookings:", bookings)
	// Output:
	// second: <nil>
	// first, too late: true
	// bookings: 1
}

// ledger is a database with a table, and that of sqlfence.
func ledger() (db *sql.DB, remove func()) {
	dir, err := os.MkdirTemp("", "ledger")
	if err != nil {
		panic(err)
	}
	db, err = sql.Open("sqlite3", "file:"+dir+"/ledger.db")
	if err != nil {
		panic(err)
	}
	for _, statement := range []string{sqlfence.SQLite.Schema(), `CREATE TABLE booking (amount integer)`} {
		if _, err := db.Exec(statement); err != nil {
			panic(err)
		}
	}
	return db, func() {
		db.Close()
		os.RemoveAll(dir)
	}
}
