package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/holdfastlock/holdfast/driver"
)

const (
	slotColumns = `slot, phase, token, fence, attempt, began, ended, code, note`
	selectSlot  = `SELECT ` + slotColumns + ` FROM slot WHERE job = ? AND slot = ? AND keep >= ?`
	selectRuns  = `SELECT ` + slotColumns + ` FROM slot WHERE job = ? AND keep >= ? ORDER BY began DESC, fence DESC LIMIT ?`
	writeSlot   = `INSERT OR REPLACE INTO slot (job, keep, ` + slotColumns + `) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
)

func checkSlot(job, slot string) error {
	if err := driver.CheckName(job); err != nil {
		return err
	}
	return driver.CheckSlot(slot)
}

// wallTime returns a time of the file, or the zero time for 0.
func wallTime(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}

func wallMicro(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

func scanRun(into func(...any) error) (driver.Run, error) {
	var r driver.Run
	var began, ended int64
	err := into(&r.Slot, &r.Phase, &r.Token, &r.Fence, &r.Attempt, &began, &ended, &r.Code, &r.Note)
	r.Began, r.Ended = wallTime(began), wallTime(ended)
	return r, err
}

// loadRun returns what is known of a slot, without what is left of the lease.
func loadRun(q querier, now moment, job, slot string) (driver.Run, error) {
	r, err := scanRun(q.QueryRow(selectSlot, job, slot, now.wall).Scan)
	if errors.Is(err, sql.ErrNoRows) {
		return driver.Run{Slot: slot}, nil
	}
	return r, err
}

// saveRun writes the run, to be remembered for keep.
func saveRun(tx *sql.Tx, now moment, job string, r driver.Run, keep time.Duration) error {
	_, err := tx.Exec(writeSlot, job, now.after(keep).wall,
		r.Slot, r.Phase, r.Token, r.Fence, r.Attempt, wallMicro(r.Began), wallMicro(r.Ended), r.Code, r.Note)
	return err
}

// withLeft returns the run with what is left of the lease of its runner, which
// is the job's row if it is alive.
func withLeft(r driver.Run, job row, now moment) driver.Run {
	if r.Phase == driver.Running && job.compare(r.Token, now) == driver.Mine {
		r.Left = job.end.until(now)
	}
	return r
}

// InspectSlot implements driver.SlotKeeper.
func (s *Store) InspectSlot(ctx context.Context, job, slot string) (driver.Run, time.Time, error) {
	err := driver.CheckName(job)
	if err == nil && slot != "" { // no slot has the empty text
		err = driver.CheckSlot(slot)
	}
	if err != nil {
		return driver.Run{}, time.Time{}, err
	}
	type answer struct {
		run driver.Run
		now time.Time
	}
	a, err := read(ctx, s, func(db *sql.DB, now moment) (answer, error) {
		runner, err := load(db, job)
		if err != nil {
			return answer{}, err
		}
		r, err := loadRun(db, now, job, slot)
		return answer{withLeft(r, runner, now), wallTime(now.wall)}, err
	})
	return a.run, a.now, err
}

// BeginSlot implements driver.SlotKeeper.
func (s *Store) BeginSlot(ctx context.Context, req driver.BeginRequest) (driver.BeginResult, error) {
	if err := checkSlot(req.Job, req.Slot); err != nil {
		return driver.BeginResult{}, err
	}
	return write(ctx, s, func(tx *sql.Tx, now moment) (driver.BeginResult, error) {
		return begin(tx, now, req)
	})
}

func begin(tx *sql.Tx, now moment, req driver.BeginRequest) (driver.BeginResult, error) {
	var none driver.BeginResult
	runner, err := load(tx, req.Job)
	if err != nil {
		return none, err
	}
	if runner.compareGrant(req.Token, req.Fence, now) != driver.Mine {
		return driver.BeginResult{Verdict: driver.NotHeld}, nil
	}
	r, err := loadRun(tx, now, req.Job, req.Slot)
	if err != nil {
		return none, err
	}
	verdict := req.Judge(r, wallTime(now.wall))
	switch {
	case verdict == driver.Begun && r.Token != req.Token:
		r = driver.Run{
			Slot: req.Slot, Phase: driver.Running, Token: req.Token, Fence: req.Fence,
			Attempt: r.Attempt + 1, Began: wallTime(now.wall),
		}
		err = sweepSlots(tx, now)
	case verdict == driver.Ended && r.Phase == driver.Running:
		r.Phase, r.Ended = driver.Lost, wallTime(now.wall)
	default:
		return driver.BeginResult{Verdict: verdict, Run: withLeft(r, runner, now)}, nil
	}
	if err == nil {
		err = saveRun(tx, now, req.Job, r, driver.RunningKeep)
	}
	return driver.BeginResult{Verdict: verdict, Run: withLeft(r, runner, now)}, err
}

// compareGrant compares the token and the fence of a lease: a token that was granted the
// name again has another.
func (r row) compareGrant(token string, fence int64, now moment) driver.Answer {
	answer := r.compare(token, now)
	if answer == driver.Mine && r.told() != fence {
		return driver.Taken
	}
	return answer
}

// sweepSlots removes some slots, of any job, that need not be known any more.
func sweepSlots(tx *sql.Tx, now moment) error {
	_, err := tx.Exec(`DELETE FROM slot WHERE (job, slot) IN (
		SELECT job, slot FROM slot WHERE keep < ? ORDER BY keep LIMIT ?)`, now.wall, sweepLimit)
	return err
}

// FinishSlot implements driver.SlotKeeper.
func (s *Store) FinishSlot(ctx context.Context, req driver.FinishRequest) (driver.Answer, error) {
	if err := checkSlot(req.Job, req.Slot); err != nil {
		return 0, err
	}
	return write(ctx, s, func(tx *sql.Tx, now moment) (driver.Answer, error) {
		return finish(tx, now, req)
	})
}

func finish(tx *sql.Tx, now moment, req driver.FinishRequest) (driver.Answer, error) {
	runner, err := load(tx, req.Job)
	if err != nil {
		return 0, err
	}
	r, err := loadRun(tx, now, req.Job, req.Slot)
	if err != nil {
		return 0, err
	}
	mine := r.Token == req.Token && r.Fence == req.Fence
	answer := runner.compareGrant(req.Token, req.Fence, now)
	switch {
	case mine && r.Phase == driver.Done:
		return driver.Mine, nil
	case answer != driver.Mine:
		return answer, nil
	case r.Phase == 0:
		return driver.Gone, nil
	case !mine || r.Phase != driver.Running:
		return driver.Taken, nil
	}
	r.Phase, r.Ended = driver.Done, wallTime(now.wall)
	r.Code, r.Note = req.Code, req.Note
	return driver.Mine, saveRun(tx, now, req.Job, r, req.Keep)
}

// Runs implements driver.SlotKeeper.
func (s *Store) Runs(ctx context.Context, job string, limit int) ([]driver.Run, error) {
	if err := driver.CheckName(job); err != nil {
		return nil, err
	}
	return read(ctx, s, func(db *sql.DB, now moment) ([]driver.Run, error) {
		runner, err := load(db, job)
		if err != nil {
			return nil, err
		}
		rows, err := db.Query(selectRuns, job, now.wall, max(0, min(limit, driver.MaxRuns)))
		if err != nil {
			return nil, err
		}
		defer rows.Close()
		var runs []driver.Run
		for rows.Next() {
			r, err := scanRun(rows.Scan)
			if err != nil {
				return nil, err
			}
			runs = append(runs, withLeft(r, runner, now))
		}
		return runs, rows.Err()
	})
}
