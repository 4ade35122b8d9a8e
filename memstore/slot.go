package memstore

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/holdfastlock/holdfast/driver"
)

// slotRecord is what is known of one slot of a job, and until when.
type slotRecord struct {
	run  driver.Run // without what is left of the lease
	keep time.Time
}

// checkSlot returns why the job or the slot can't be used.
func checkSlot(job, slot string) error {
	if err := driver.CheckName(job); err != nil {
		return err
	}
	return driver.CheckSlot(slot)
}

// slotsOf returns what is known of the slots of a job, without what is
// forgotten by now. The caller holds the mutex.
func (s *Store) slotsOf(job string, now time.Time) map[string]*slotRecord {
	records := s.slots[job]
	if records == nil {
		records = make(map[string]*slotRecord)
		s.slots[job] = records
	}
	maps.DeleteFunc(records, func(_ string, r *slotRecord) bool { return now.After(r.keep) })
	return records
}

// seen returns the run as it is now.
func (r *slotRecord) seen(runner *lock, now time.Time) driver.Run {
	run := r.run
	if h := runner.find(run.Token); h != nil && run.Phase == driver.Running {
		run.Left = h.until.Sub(now)
	}
	return run
}

// InspectSlot implements driver.SlotKeeper.
func (s *Store) InspectSlot(ctx context.Context, job, slot string) (run driver.Run, now time.Time, err error) {
	if err := driver.CheckName(job); err != nil {
		return run, now, err
	}
	if err := driver.CheckSlot(slot); err != nil && slot != "" {
		return run, now, err
	}
	run, err = carryOut(ctx, s, "inspect slot", func(at time.Time) (driver.Run, error) {
		now = at.UTC()
		if record := s.slotsOf(job, at)[slot]; record != nil {
			return record.seen(s.current(job, at), at), nil
		}
		return driver.Run{Slot: slot}, nil
	})
	return run, now, err
}

// BeginSlot implements driver.SlotKeeper.
func (s *Store) BeginSlot(ctx context.Context, req driver.BeginRequest) (driver.BeginResult, error) {
	if err := checkSlot(req.Job, req.Slot); err != nil {
		return driver.BeginResult{}, err
	}
	return carryOut(ctx, s, "begin slot", func(now time.Time) (driver.BeginResult, error) {
		runner := s.current(req.Job, now)
		if runner.compareGrant(req.Token, req.Fence) != driver.Mine {
			return driver.BeginResult{Verdict: driver.NotHeld}, nil
		}
		records := s.slotsOf(req.Job, now)
		record := records[req.Slot]
		if record == nil {
			record = &slotRecord{run: driver.Run{Slot: req.Slot}}
		}
		verdict := req.Judge(record.run, now)
		switch {
		case verdict == driver.Begun && record.run.Token != req.Token:
			record.begin(req, now)
			records[req.Slot] = record
		case verdict == driver.Ended && record.run.Phase == driver.Running:
			record.run.Phase, record.run.Ended = driver.Lost, now.UTC()
		}
		return driver.BeginResult{Verdict: verdict, Run: record.seen(runner, now)}, nil
	})
}

// compareGrant compares the token and the fence of a lease: a token that was granted the
// name again has another.
func (l *lock) compareGrant(token string, fence int64) driver.Answer {
	answer := l.compare(token)
	if answer == driver.Mine && l.find(token).fence != fence {
		return driver.Taken
	}
	return answer
}

func (r *slotRecord) begin(req driver.BeginRequest, now time.Time) {
	r.keep = now.Add(driver.RunningKeep)
	r.run = driver.Run{
		Slot: req.Slot, Phase: driver.Running, Token: req.Token, Fence: req.Fence,
		Attempt: r.run.Attempt + 1, Began: now.UTC(),
	}
}

// FinishSlot implements driver.SlotKeeper.
func (s *Store) FinishSlot(ctx context.Context, req driver.FinishRequest) (driver.Answer, error) {
	if err := checkSlot(req.Job, req.Slot); err != nil {
		return 0, err
	}
	return carryOut(ctx, s, "finish slot", func(now time.Time) (driver.Answer, error) {
		record := s.slotsOf(req.Job, now)[req.Slot]
		mine := record != nil && record.run.Token == req.Token && record.run.Fence == req.Fence
		answer := s.current(req.Job, now).compareGrant(req.Token, req.Fence)
		switch {
		case mine && record.run.Phase == driver.Done:
			return driver.Mine, nil
		case answer != driver.Mine:
			return answer, nil
		case record == nil:
			return driver.Gone, nil
		case !mine || record.run.Phase != driver.Running:
			return driver.Taken, nil
		}
		record.keep = now.Add(req.Keep)
		record.run.Phase, record.run.Ended = driver.Done, now.UTC()
		record.run.Code, record.run.Note = req.Code, req.Note
		return driver.Mine, nil
	})
}

// Runs implements driver.SlotKeeper.
func (s *Store) Runs(ctx context.Context, job string, limit int) ([]driver.Run, error) {
	if err := driver.CheckName(job); err != nil {
		return nil, err
	}
	return carryOut(ctx, s, "runs", func(now time.Time) ([]driver.Run, error) {
		var runs []driver.Run
		runner := s.current(job, now)
		for _, record := range s.slotsOf(job, now) {
			runs = append(runs, record.seen(runner, now))
		}
		slices.SortFunc(runs, func(a, b driver.Run) int {
			return cmp.Or(b.Began.Compare(a.Began), cmp.Compare(b.Fence, a.Fence))
		})
		return runs[:max(0, min(limit, driver.MaxRuns, len(runs)))], nil
	})
}
