package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfastlock/holdfast/fence"
	"github.com/holdfastlock/holdfast/fence/pgxfence"
	"github.com/holdfastlock/holdfast/pgstore"
	"github.com/holdfastlock/holdfast/torture/history"
	"github.com/holdfastlock/holdfast/torture/worker"
)

// database is holdfast with Postgres as a worker uses it: beside the locks it
// has transactions of its own.
type database struct {
	*locker
	pool *pgxpool.Pool
}

// openDatabase adds connections for the worker's own transactions.
func openDatabase(l *locker, settings worker.Settings) (worker.Locker, error) {
	config, err := pgxpool.ParseConfig(settings.Store)
	if err != nil {
		return nil, err
	}
	config.MaxConns = int32(settings.Clients)
	config.ConnConfig.ConnectTimeout = settings.StoreTimeout
	config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec // for the pooler
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	return database{l, pool}, err
}

// Outcome implements worker.Locker.
func (d database) Outcome(err error) history.Outcome {
	if errors.Is(err, fence.ErrStale) {
		return history.StaleFence
	}
	return d.locker.Outcome(err)
}

// Close implements worker.Locker.
func (d database) Close(ctx context.Context) error {
	d.pool.Close()
	return d.locker.Close(ctx)
}

// Read implements worker.Database.
func (d database) Read(ctx context.Context, held worker.Lease, e history.Event) (worker.Update, error) {
	u := &update{pool: d.pool, lease: held.(lease), owner: fmt.Sprintf("%s/%d", e.Process, e.Lease)}
	err := u.begin(ctx, e.Name)
	if err == nil {
		err = u.tx.QueryRow(ctx, "SELECT version, "+timeline+" FROM torture_register WHERE name = $1", e.Name).
			Scan(&u.version, &u.timeline)
	}
	if err == nil && !strings.HasPrefix(e.Name, worker.ByGuard) {
		err = u.commit(ctx)
	}
	if err != nil {
		u.Close(ctx)
		return nil, err
	}
	return u, nil
}

// update is a register that was read.
type update struct {
	pool    *pgxpool.Pool
	lease   lease
	owner   string
	version int64
	// timeline is the server's, on which the version was read.
	timeline string
	tx       pgx.Tx // nil if the register was read in one that is over
}

// begin begins a transaction, and protects it as the name says.
func (u *update) begin(ctx context.Context, name string) (err error) {
	if u.tx, err = u.pool.Begin(ctx); err != nil {
		return err
	}
	switch {
	case strings.HasPrefix(name, worker.ByGuard):
		return pgstore.Guard(ctx, u.tx, u.lease.Lease)
	case strings.HasPrefix(name, worker.ByFence):
		return pgxfence.Touch(ctx, u.tx, name, u.owner, u.lease.Fence())
	default:
		return nil
	}
}

func (u *update) commit(ctx context.Context) error {
	err := u.tx.Commit(ctx)
	u.tx = nil
	return err
}

// timeline is what the server counts its promotions by.
const timeline = "left(pg_walfile_name(pg_current_wal_lsn()), 8)"

// Version implements worker.Update.
func (u *update) Version() int64 { return u.version }

// Write implements worker.Update. The time is taken while the row is locked, so
// that it is in the order of the versions.
func (u *update) Write(ctx context.Context, e history.Event) (version int64, err error) {
	if u.tx == nil {
		if err := u.begin(ctx, e.Name); err != nil {
			return 0, err
		}
	}
	err = u.tx.QueryRow(ctx, "UPDATE torture_register SET version = version + 1 WHERE name = $1 RETURNING version", e.Name).
		Scan(&version)
	if err != nil {
		return 0, err
	}
	_, err = u.tx.Exec(ctx, "INSERT INTO torture_write VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, "+timeline+")",
		e.Name, version, u.version, e.Fence, e.Process, e.Op, e.Lease, history.Now(), u.timeline)
	if err != nil {
		return 0, err
	}
	return version, u.commit(ctx)
}

// Close implements worker.Update.
func (u *update) Close(ctx context.Context) {
	if u.tx != nil {
		_ = u.tx.Rollback(ctx) // an error means that the connection is gone, and the transaction with it
	}
}

// claimLimit is how many jobs are claimed at once.
const claimLimit = 3

// Claim implements worker.Database. That a job is done is noted in its row, and,
// as what it has done, in another table.
func (d database) Claim(ctx context.Context, e history.Event, work func()) (jobs int, err error) {
	err = pgx.BeginFunc(ctx, d.pool, func(tx pgx.Tx) error {
		rows, err := queue.Rows(ctx, tx)
		if err != nil {
			return err
		}
		claimed, err := pgx.CollectRows(rows, pgx.RowTo[int64])
		if err != nil || len(claimed) == 0 {
			return err
		}
		jobs = len(claimed)
		work()
		const do = `WITH done AS (
				UPDATE torture_job SET done = true WHERE job = ANY ($1::bigint[])
			) INSERT INTO torture_effect SELECT unnest($1::bigint[]), $2, $3, $4`
		_, err = tx.Exec(ctx, do, claimed, e.Process, e.Op, history.Now())
		return err
	})
	return jobs, err
}

// queue are the jobs that are to be done.
var queue = pgstore.Claim{
	Table: pgx.Identifier{"torture_job"}, Columns: []string{"job"}, Where: "NOT done",
	OrderBy: []pgstore.Order{{Column: "job"}}, Limit: claimLimit,
}

// resourceSchema makes the tables of the resources in the store. A register
// contains what the chain of its writes leads to; see package check. Nothing
// in the tables themselves keeps a job from being done twice.
const resourceSchema = pgxfence.Schema + `;
CREATE TABLE torture_register (name text PRIMARY KEY, version bigint NOT NULL);
CREATE TABLE torture_write (name text, version bigint, based bigint, fence bigint, process text, op bigint, lease bigint, at bigint,
	read_on text, written_on text); -- timelines
CREATE TABLE torture_job (job bigint PRIMARY KEY, done boolean NOT NULL);
CREATE INDEX ON torture_job (job) WHERE NOT done;
CREATE TABLE torture_effect (job bigint, process text, op bigint, at bigint);
CREATE INDEX ON torture_effect (job);
`

// jobsPerSecond are enough for workers that are disturbed all the time.
const jobsPerSecond = 100

// resources returns the SQL that makes the resources of a run.
func (o options) resources() string {
	text := resourceSchema + fmt.Sprintf("INSERT INTO torture_job SELECT generate_series(1, %d), false;", int(o.length.Seconds()*jobsPerSecond))
	for _, kind := range []string{worker.ByGuard, worker.ByFence, worker.ByNothing} {
		for _, name := range o.names.Registers {
			text += "INSERT INTO torture_register VALUES ('" + kind + name + "', 0);"
		}
	}
	return text
}
