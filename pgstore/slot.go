package pgstore

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfastlock/holdfast/driver"
)

// seen is what was read of a slot, and of who holds its job.
type seen struct {
	run         driver.Run // of phase 0 if the slot is not known
	holder      string     // of the job; empty if there is none
	holderFence int64
	expires     time.Time // of the holder
	now         time.Time // by the server's clock, as all times
}

func scanSeen(from pgx.CollectableRow) (seen, error) {
	var s seen
	var slot, token, note, holder *string
	var phase, attempt, code *int
	var fence, holderFence *int64
	var began, ended, expires *time.Time
	err := from.Scan(&slot, &phase, &token, &fence, &attempt, &began, &ended, &code, &note,
		&holder, &holderFence, &expires, &s.now)
	if err != nil {
		return s, err
	}
	s.holder, s.holderFence, s.expires = value(holder), value(holderFence), value(expires)
	s.run = driver.Run{
		Slot: value(slot), Phase: driver.Phase(value(phase)), Token: value(token), Fence: value(fence),
		Attempt: value(attempt), Began: utc(began), Ended: utc(ended), Code: value(code), Note: value(note),
	}
	if s.run.Phase == driver.Running && s.run.Token == s.holder {
		s.run.Left = s.expires.Sub(s.now)
	}
	return s, nil
}

// value returns what a column has, or zero for null.
func value[T any](column *T) T {
	var zero T
	if column == nil {
		return zero
	}
	return *column
}

func utc(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.UTC()
}

// compare says what there is for somebody who has the token and fence of a lease
// on the job. A token that was granted the name again has another fence.
func (s seen) compare(token string, fence int64) driver.Answer {
	switch {
	case s.holder == "":
		return driver.Gone
	case s.holder != token || s.holderFence != fence:
		return driver.Taken
	default:
		return driver.Mine
	}
}

func checkSlot(job, slot string) error {
	if err := driver.CheckName(job); err != nil {
		return err
	}
	return driver.CheckSlot(slot)
}

// look reads a slot.
func (s *Store) look(ctx context.Context, job, slot string) (seen, error) {
	found, err := queryOne(ctx, s, slotSQL, scanSeen, job, slot)
	found.run.Slot = slot
	return found, err
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
	found, err := s.look(ctx, job, slot)
	return found.run, found.now.UTC(), err
}

// BeginSlot implements driver.SlotKeeper. The slot is read, judged, and written
// if it still is as it was read, else read again.
func (s *Store) BeginSlot(ctx context.Context, req driver.BeginRequest) (driver.BeginResult, error) {
	var none driver.BeginResult
	if err := checkSlot(req.Job, req.Slot); err != nil {
		return none, err
	}
	for {
		found, err := s.look(ctx, req.Job, req.Slot)
		if err != nil {
			return none, err
		}
		if found.compare(req.Token, req.Fence) != driver.Mine {
			return driver.BeginResult{Verdict: driver.NotHeld}, nil
		}
		verdict := req.Judge(found.run, found.now)
		run, written, err := found.run, true, error(nil)
		switch {
		case verdict == driver.Begun && run.Token != req.Token:
			run, written, err = s.begin(ctx, req, found)
		case verdict == driver.Ended && run.Phase == driver.Running:
			run, written, err = s.lose(ctx, req, run)
		}
		if err != nil || written {
			return driver.BeginResult{Verdict: verdict, Run: run}, err
		}
	}
}

// begin makes the slot running, if it is as it was found.
func (s *Store) begin(ctx context.Context, req driver.BeginRequest, found seen) (run driver.Run, written bool, err error) {
	last := found.run
	run = driver.Run{
		Slot: req.Slot, Phase: driver.Running, Token: req.Token, Fence: req.Fence, Attempt: last.Attempt + 1,
	}
	var notAfter *time.Time
	if !req.NotAfter.IsZero() {
		notAfter = &req.NotAfter
	}
	began, err := query(ctx, s, beginSQL, pgx.RowTo[time.Time], req.Job, req.Slot, req.Token, req.Fence, run.Attempt,
		micro(driver.RunningKeep), notAfter, int(last.Phase), last.Token, last.Attempt)
	if err != nil || len(began) == 0 {
		return run, false, err
	}
	run.Began, run.Left = began[0].UTC(), found.expires.Sub(began[0])
	s.sweep(ctx)
	return run, true, nil
}

// lose makes the slot lost, if the run is as it was found.
func (s *Store) lose(ctx context.Context, req driver.BeginRequest, run driver.Run) (_ driver.Run, written bool, err error) {
	ended, err := query(ctx, s, loseSQL, pgx.RowTo[time.Time], req.Job, req.Slot, req.Token, req.Fence,
		micro(driver.RunningKeep), run.Token, run.Attempt)
	if err != nil || len(ended) == 0 {
		return run, false, err
	}
	run.Phase, run.Ended = driver.Lost, ended[0].UTC()
	return run, true, nil
}

// FinishSlot implements driver.SlotKeeper.
func (s *Store) FinishSlot(ctx context.Context, req driver.FinishRequest) (driver.Answer, error) {
	if err := checkSlot(req.Job, req.Slot); err != nil {
		return 0, err
	}
	for {
		done, err := query(ctx, s, finishSQL, pgx.RowTo[time.Time], req.Job, req.Slot, req.Token, req.Fence,
			req.Code, req.Note, micro(req.Keep))
		if err != nil {
			return 0, err
		}
		if len(done) > 0 {
			return driver.Mine, nil
		}
		found, err := s.look(ctx, req.Job, req.Slot)
		if err != nil {
			return 0, err
		}
		if answer := found.unfinished(req); answer != 0 {
			return answer, nil
		}
	}
}

// unfinished says why the slot was not made done, or 0 if it could be now.
func (s seen) unfinished(req driver.FinishRequest) driver.Answer {
	mine := s.run.Token == req.Token && s.run.Fence == req.Fence
	answer := s.compare(req.Token, req.Fence)
	switch {
	case mine && s.run.Phase == driver.Done:
		return driver.Mine
	case answer != driver.Mine:
		return answer
	case s.run.Phase == 0:
		return driver.Gone
	case !mine || s.run.Phase != driver.Running:
		return driver.Taken
	default:
		return 0
	}
}

// Runs implements driver.SlotKeeper.
func (s *Store) Runs(ctx context.Context, job string, limit int) ([]driver.Run, error) {
	if err := driver.CheckName(job); err != nil {
		return nil, err
	}
	found, err := query(ctx, s, runsSQL, scanSeen, job, max(0, min(limit, driver.MaxRuns)))
	if err != nil {
		return nil, err
	}
	runs := make([]driver.Run, len(found))
	for i := range found {
		runs[i] = found[i].run
	}
	return runs, nil
}
