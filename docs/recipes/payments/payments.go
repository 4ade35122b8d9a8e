// Command payments pays an account out: it reads the balance, works out what is
// to be paid, and writes the payment and the new balance. Two of it at once
// would pay twice. It shows both ways to be sure that it does not:
//
//	psql -f schema.sql "$DATABASE_URL"
//	holdfast fence schema postgres | psql "$DATABASE_URL"
//	DATABASE_URL=postgres://… REDIS_URL=redis://… go run . -lock redis 7
//
//	holdfast schema apply --store "$DATABASE_URL"
//	DATABASE_URL=postgres://… go run . -lock postgres 7
//
// With the lock in Redis, Postgres checks the fence. With the lock in Postgres,
// the transaction guards itself by the lease. The lock alone is not enough in
// either: see docs/guarantees.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfastlock/holdfast"
	"github.com/holdfastlock/holdfast/fence/pgxfence"
	"github.com/holdfastlock/holdfast/open"
	"github.com/holdfastlock/holdfast/pgstore"
)

func main() {
	lock := flag.String("lock", "postgres", "where the lock is: redis or postgres")
	ttl := flag.Duration("ttl", 30*time.Second, "how long a lease lasts unless it is renewed")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *lock, *ttl, flag.Arg(0)); err != nil {
		fmt.Fprintln(os.Stderr, "payments:", err)
		os.Exit(1)
	}
}

// way is one of paying an account out.
type way struct {
	store string // the variable that has the URL of the locks
	pay   func(ctx context.Context, locker *holdfast.Locker, db *pgxpool.Pool, account int64) error
}

var ways = map[string]way{
	"redis":    {"REDIS_URL", underFence},
	"postgres": {"DATABASE_URL", underGuard},
}

// run pays one account out.
func run(ctx context.Context, lock string, ttl time.Duration, number string) error {
	w, known := ways[lock]
	account, err := strconv.ParseInt(number, 10, 64)
	if !known || err != nil {
		return errors.New("usage: payments [-lock redis|postgres] ACCOUNT")
	}
	db, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		return err
	}
	defer db.Close()
	store, closer, err := open.Store(ctx, os.Getenv(w.store), open.Options{})
	if err != nil {
		return err
	}
	defer closer.Close()
	locker, err := holdfast.New(store, holdfast.Config{TTL: ttl})
	if err != nil {
		return err
	}
	defer locker.Close(context.WithoutCancel(ctx))
	return w.pay(ctx, locker, db, account)
}

// underFence takes a lock from any store, and has Postgres refuse whoever is not
// its latest holder any more. The fence is shown before the balance is read.
func underFence(ctx context.Context, locker *holdfast.Locker, db *pgxpool.Pool, account int64) error {
	name := fmt.Sprint("account:", account)
	return locker.Do(ctx, name, func(ctx context.Context, lease *holdfast.Lease) error {
		return pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
			if err := pgxfence.Touch(ctx, tx, name, owner(), lease.Fence()); err != nil {
				return err // *fence.StaleError: somebody else has taken over
			}
			return payOut(ctx, tx, account)
		})
	})
}

// underGuard takes a lock from the database in which the account is. Until the
// transaction ends, nobody else is granted the lock.
func underGuard(ctx context.Context, locker *holdfast.Locker, db *pgxpool.Pool, account int64) error {
	return locker.Do(ctx, fmt.Sprint("account:", account), func(ctx context.Context, lease *holdfast.Lease) error {
		return pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
			if err := pgstore.Guard(ctx, tx, lease); err != nil {
				return err // *holdfast.LostError: somebody else has taken over
			}
			return payOut(ctx, tx, account)
		})
	})
}

// owner tells holders apart for people who look at the fence table.
func owner() string {
	host, _ := os.Hostname() // empty will do
	return fmt.Sprint(host, "/", os.Getpid())
}

// payOut pays the whole balance, if there is any. Between its reading and its
// writing is where a second one would do harm. The transfer itself is for a
// worker that sends each payment with its id as idempotency key: a transaction
// can be rolled back, and a transfer can't.
func payOut(ctx context.Context, tx pgx.Tx, account int64) error {
	var balance int64
	err := tx.QueryRow(ctx, "SELECT balance FROM account WHERE id = $1", account).Scan(&balance)
	if errors.Is(err, pgx.ErrNoRows) {
		return fmt.Errorf("there is no account %d", account)
	}
	if err != nil || balance == 0 {
		return err
	}
	workOut(ctx)
	if _, err := tx.Exec(ctx, "INSERT INTO payment (account, amount) VALUES ($1, $2)", account, balance); err != nil {
		return err
	}
	_, err = tx.Exec(ctx, "UPDATE account SET balance = 0 WHERE id = $1", account)
	return err
}

// workOut stands for the fees, the limits and the questions to other systems.
var workOut = func(context.Context) {}
