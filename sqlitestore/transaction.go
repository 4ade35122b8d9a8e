package sqlitestore

import (
	"context"
	"database/sql"
	"math/rand/v2"
	"time"
)

// The pause of a process that found the database busy: short, because a
// transaction takes as long as one write to the disk, and random, so that no
// process is always too late.
const (
	busyPauseMin = 500 * time.Microsecond
	busyPauseMax = 3 * time.Millisecond
)

// write runs step in a transaction that has the file's write lock, hence in one
// atomic step; now was read under that lock.
func write[T any](ctx context.Context, s *Store, step func(tx *sql.Tx, now moment) (T, error)) (T, error) {
	return await(ctx, s, func() (T, error) {
		// One at a time in this process, in order of arrival; SQLite would let
		// only one through as well, but without an order.
		select {
		case s.turn <- struct{}{}:
			defer func() { <-s.turn }()
		case <-ctx.Done():
			var none T
			return none, ctx.Err()
		}
		return retry(ctx, func() (T, error) { return transact(ctx, s, step) })
	})
}

// read runs step, a query, again while the database is busy.
func read[T any](ctx context.Context, s *Store, step func(db *sql.DB, now moment) (T, error)) (T, error) {
	return await(ctx, s, func() (T, error) {
		return retry(ctx, func() (T, error) { return step(s.db, s.now()) })
	})
}

// transact takes the file's write lock, runs step, and commits unless the
// caller has gone. The context does not interrupt it in the middle: it lasts
// as long as a write to the disk, which nothing can interrupt.
func transact[T any](ctx context.Context, s *Store, step func(tx *sql.Tx, now moment) (T, error)) (T, error) {
	var none T
	tx, err := s.db.Begin() // IMMEDIATE, by the driver's default
	if err != nil {
		return none, err
	}
	defer tx.Rollback() // does nothing after the commit
	answer, err := step(tx, s.now())
	if err == nil {
		err = ctx.Err()
	}
	if err == nil {
		err = tx.Commit()
	}
	if err != nil {
		return none, err
	}
	return answer, nil
}

// retry repeats step while the database is busy and the caller waits.
func retry[T any](ctx context.Context, step func() (T, error)) (T, error) {
	for {
		answer, err := step()
		if !busy(err) {
			return answer, err
		}
		select {
		case <-time.After(busyPauseMin + rand.N(busyPauseMax-busyPauseMin)):
		case <-ctx.Done():
			return answer, err
		}
	}
}

// await runs step in a goroutine, so that a caller whose context ends need not
// wait for a slow disk. Close waits for the goroutine.
func await[T any](ctx context.Context, s *Store, step func() (T, error)) (T, error) {
	var none T
	if err := ctx.Err(); err != nil {
		return none, err
	}
	if !s.enter() {
		return none, errClosed
	}
	type outcome struct {
		answer T
		err    error
	}
	done := make(chan outcome, 1)
	go func() {
		defer s.running.Done()
		answer, err := step()
		done <- outcome{answer, s.failure(ctx, err)}
	}()
	select {
	case o := <-done:
		return o.answer, o.err
	case <-ctx.Done():
		return none, s.failure(ctx, ctx.Err())
	}
}
