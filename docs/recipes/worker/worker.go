// Command worker does the jobs of a table in Postgres, each once, beside as many
// copies of itself as you start, on as many hosts. Kill any of them at any
// moment: the others do its jobs.
//
//	psql -f schema.sql "$DATABASE_URL"
//	DATABASE_URL=postgres://… go run .
//
// Change perform and the table, and it is yours.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfastlock/holdfast/pgstore"
)

func main() {
	batch := flag.Int("batch", 20, "jobs in one transaction")
	poll := flag.Duration("poll", time.Second, "how long to wait when there is nothing to do")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Getenv("DATABASE_URL"), *batch, *poll); err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		os.Exit(1)
	}
}

// run does jobs until ctx ends. A transaction that is under way then is rolled
// back. It ends with the first failure of the database: have it started again.
func run(ctx context.Context, url string, batch int, poll time.Duration) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	for {
		done, err := doBatch(ctx, conn, batch)
		if err != nil {
			return err
		}
		if done > 0 {
			continue
		}
		select {
		case <-time.After(poll):
		case <-ctx.Done():
			return nil
		}
	}
}

type job struct {
	ID   int64
	Name string
}

// doBatch claims jobs and does them, in one transaction.
func doBatch(ctx context.Context, conn *pgx.Conn, batch int) (done int, err error) {
	claim := pgstore.Claim{
		Table:   pgx.Identifier{"job"},
		Columns: []string{"id", "name"},
		Where:   "done IS NULL AND due <= now()",
		OrderBy: []pgstore.Order{{Column: "due"}, {Column: "id"}},
		Limit:   batch,
	}
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		// A worker that stands still for so long between two statements loses its jobs.
		if _, err := tx.Exec(ctx, "SET LOCAL idle_in_transaction_session_timeout = '30s'"); err != nil {
			return err
		}
		rows, err := claim.Rows(ctx, tx)
		if err != nil {
			return err
		}
		jobs, err := pgx.CollectRows(rows, pgx.RowToStructByName[job])
		if err != nil {
			return err
		}
		for _, j := range jobs {
			if err := do(ctx, tx, j); err != nil {
				return err
			}
		}
		done = len(jobs)
		return nil
	})
	return done, err
}

// do does one job and notes what came of it. What fails is rolled back to the
// savepoint that the inner transaction is, and tried again later, so that it
// holds up no others.
func do(ctx context.Context, tx pgx.Tx, j job) error {
	failure := pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error { return perform(ctx, tx, j) })
	if failure == nil {
		_, err := tx.Exec(ctx, "UPDATE job SET done = now() WHERE id = $1", j.ID)
		return err
	}
	_, err := tx.Exec(ctx, `UPDATE job SET failures = failures + 1, error = $2,
		due = now() + least(2 ^ least(failures, 12), 3600) * interval '1 second' WHERE id = $1`, j.ID, failure.Error())
	return err
}

var errNobody = errors.New("nobody to greet")

// perform is the work. What it does through tx is done once; what it does
// elsewhere, such as sending mail, may be done again after a crash.
func perform(ctx context.Context, tx pgx.Tx, j job) error {
	if j.Name == "" {
		return errNobody
	}
	_, err := tx.Exec(ctx, "INSERT INTO greeting (job, text) VALUES ($1, $2)", j.ID, "Hello, "+j.Name)
	return err
}
