package main

import (
	"context"
	"errors"
	"path"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfastlock/holdfast/internal/pgtest"
	"github.com/holdfastlock/holdfast/pgstore"
	"github.com/holdfastlock/holdfast/torture/check"
	"github.com/holdfastlock/holdfast/torture/history"
	"github.com/holdfastlock/holdfast/torture/nemesis"
	"github.com/holdfastlock/holdfast/torture/worker"
)

// rulesOfPostgres adds what is so with Postgres only: a transaction of a client
// that is stopped, or can't be heard, keeps the row of its lock.
func (o options) rulesOfPostgres(rules *check.Rules) {
	rules.InStore, rules.Forgets = worker.InStore, []string{nemesis.FailoverAsync.Name}
	rules.Linger += transactionLimit * o.ttl
	rules.Recovery += transactionLimit * o.ttl
}

// locks implements backend.
func (p *postgres) locks() (map[string]string, error) {
	store, err := pgstore.Open(p.primary.URL(pgtest.User), pgstore.Config{})
	if err != nil {
		return nil, err
	}
	defer store.Close()
	return listed(store)
}

// places implements backend: nobody has one in a table.
func (p *postgres) places(map[string]bool) (map[string]string, error) { return nil, nil }

// readTables adds what was decided of the resources in the store, and does the
// jobs that are left.
func (r *run) readTables(ctx context.Context, primary *pgtest.Process) error {
	conn, err := pgx.Connect(ctx, primary.URL(pgtest.User))
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	left, err := doTheRest(ctx, conn, time.Now().Add(transactionLimit*r.options.ttl))
	for _, job := range left {
		r.add(history.Event{
			At: history.Now(), Kind: history.Left, Process: theRest,
			Name: worker.Claims + strconv.FormatInt(job, 10), Note: "a job that nobody did: it is still claimed, or only marked done",
		})
	}
	return errors.Join(err, r.readWrites(ctx, conn))
}

// theRest is who does the jobs that are left.
const theRest = nemesis.Process

// doTheRest returns those that nobody has done by the deadline: the workers have
// ended, and can claim none after that.
func doTheRest(ctx context.Context, conn *pgx.Conn, deadline time.Time) (left []int64, err error) {
	const rest = `WITH free AS (
			SELECT job FROM torture_job WHERE NOT done FOR UPDATE SKIP LOCKED
		), rest AS (
			UPDATE torture_job SET done = true WHERE job IN (SELECT job FROM free) RETURNING job
		) INSERT INTO torture_effect SELECT job, $1, 0, $2 FROM rest`
	const undone = "SELECT job FROM torture_job AS j WHERE NOT EXISTS (SELECT FROM torture_effect AS e WHERE e.job = j.job)"
	for ; ; time.Sleep(syncPoll) {
		if _, err := conn.Exec(ctx, rest, theRest, history.Now()); err != nil {
			return nil, err
		}
		rows, err := conn.Query(ctx, undone)
		if err != nil {
			return nil, err
		}
		left, err := pgx.CollectRows(rows, pgx.RowTo[int64])
		if err != nil || len(left) == 0 || time.Now().After(deadline) {
			return left, err
		}
	}
}

// readWrites adds the writes that were committed. A job is a register that must
// be written once, when it is at version 0.
func (r *run) readWrites(ctx context.Context, conn *pgx.Conn) error {
	const writes = `SELECT name, version, CASE read_on WHEN written_on THEN based ELSE least(based, (
				SELECT coalesce(max(version), 0) FROM torture_write AS b WHERE b.name = w.name AND b.written_on <= w.read_on)) END,
			fence, process, op, lease, at
		FROM torture_write AS w
		UNION ALL
		SELECT $1 || job, version, 0, 0, process, op, 0, at
		FROM (SELECT *, row_number() OVER (PARTITION BY job ORDER BY at) AS version FROM torture_effect) AS e
		WHERE process <> $2 OR version > 1`
	rows, err := conn.Query(ctx, writes, worker.Claims, theRest)
	if err != nil {
		return err
	}
	e := history.Event{Kind: history.Accepted, Do: history.Write}
	_, err = pgx.ForEachRow(rows, []any{&e.Name, &e.Version, &e.Based, &e.Fence, &e.Process, &e.Op, &e.Lease, &e.At}, func() error {
		e.Guarded = path.Dir(e.Name)+"/" != worker.ByNothing
		e.Value = "job " + path.Base(e.Name)
		if e.Lease > 0 {
			e.Value = e.Process + "/" + strconv.FormatInt(e.Lease, 10)
		}
		r.add(e)
		return nil
	})
	return err
}
