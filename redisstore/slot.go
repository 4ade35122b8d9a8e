package redisstore

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/holdfastlock/holdfast/driver"
)

// slotKeys returns the keys of a job, and that of one slot's record.
func (s *Store) slotKeys(job, slot string) (k keys, record string, err error) {
	if k, err = keysOf(s.prefix, job); err == nil {
		err = driver.CheckSlot(slot)
	}
	return k, k.slot(slot), err
}

// InspectSlot implements driver.SlotKeeper.
func (s *Store) InspectSlot(ctx context.Context, job, slot string) (driver.Run, time.Time, error) {
	k, err := keysOf(s.prefix, job)
	record := k.slot("")
	if slot != "" { // no slot has the empty text
		k, record, err = s.slotKeys(job, slot)
	}
	if err != nil {
		return driver.Run{}, time.Time{}, err
	}
	reply, err := either(ctx, s, k.lock, func() ([]Reply, error) {
		return ask(ctx, s.connection, func(ctx context.Context, conn Conn) ([]Reply, error) {
			return call(ctx, conn, slotScript, run{keys: []string{k.lock, record}}).list(3)
		})
	}, func() ([]Reply, error) { return s.readSlot(ctx, k.lock, record) })
	if err != nil {
		return driver.Run{}, time.Time{}, err
	}
	return runOf(slot, reply)
}

// BeginSlot implements driver.SlotKeeper: one script, one round trip.
func (s *Store) BeginSlot(ctx context.Context, req driver.BeginRequest) (driver.BeginResult, error) {
	k, record, err := s.slotKeys(req.Job, req.Slot)
	if err != nil {
		return driver.BeginResult{}, err
	}
	return either(ctx, s, k.lock, func() (driver.BeginResult, error) { return s.beginByScript(ctx, k, record, req) },
		func() (driver.BeginResult, error) { return s.beginPlain(ctx, k, record, req) })
}

func (s *Store) beginByScript(ctx context.Context, k keys, record string, req driver.BeginRequest) (driver.BeginResult, error) {
	var retry, notAfter int64
	if req.RetryFailed {
		retry = 1
	}
	if !req.NotAfter.IsZero() {
		notAfter = req.NotAfter.UnixMicro()
	}
	return ask(ctx, s.connection, func(ctx context.Context, conn Conn) (result driver.BeginResult, err error) {
		reply, err := call(ctx, conn, beginScript, run{
			keys: []string{k.lock, record, k.runs(), k.companion()},
			args: []string{
				req.Token, decimal(req.Fence), decimal(int64(req.MaxAttempts)), decimal(retry), decimal(notAfter),
				req.Slot, milliseconds(driver.RunningKeep), decimal(driver.MaxRuns),
			},
		}).list(1)
		if err != nil {
			return result, err
		}
		result.Verdict = verdicts[reply[0].Text]
		if result.Verdict != driver.NotHeld {
			result.Run, _, err = runOf(req.Slot, reply[1:])
		}
		return result, err
	})
}

// verdicts are the words of the script begin.
var verdicts = map[string]driver.Verdict{
	"begun": driver.Begun, "ended": driver.Ended, "late": driver.TooLate, "free": driver.NotHeld,
}

// FinishSlot implements driver.SlotKeeper: one script, one round trip. It is not
// refused when memory is full.
func (s *Store) FinishSlot(ctx context.Context, req driver.FinishRequest) (driver.Answer, error) {
	k, record, err := s.slotKeys(req.Job, req.Slot)
	if err != nil {
		return 0, err
	}
	return either(ctx, s, k.lock, func() (driver.Answer, error) {
		return ask(ctx, s.connection, func(ctx context.Context, conn Conn) (driver.Answer, error) {
			return answerOf(call(ctx, conn, finishScript, run{
				keys: []string{k.lock, record, k.runs(), k.companion()},
				args: []string{
					req.Token, decimal(req.Fence), decimal(int64(req.Code)), req.Note, milliseconds(req.Keep),
				},
			}))
		})
	}, func() (driver.Answer, error) { return s.finishPlain(ctx, k, record, req) })
}

// Runs implements driver.SlotKeeper. What it yields is not of one moment: a
// slot begun meanwhile may be missing.
func (s *Store) Runs(ctx context.Context, job string, limit int) ([]driver.Run, error) {
	k, err := keysOf(s.prefix, job)
	if err != nil || limit < 1 {
		return nil, err
	}
	last := int64(min(limit, driver.MaxRuns) - 1)
	return either(ctx, s, k.lock, func() ([]driver.Run, error) { return s.runs(ctx, k, last, slotsByScript) },
		func() ([]driver.Run, error) { return s.runs(ctx, k, last, slotsPlain) })
}

// runs lists the runs as they are read by this function.
func (s *Store) runs(ctx context.Context, k keys, last int64,
	read func(ctx context.Context, conn Conn, k keys, slots []string) []Reply,
) ([]driver.Run, error) {
	return ask(ctx, s.connection, func(ctx context.Context, conn Conn) ([]driver.Run, error) {
		slots, err := conn.Do(ctx, command(1, "ZREVRANGE", k.runs(), "0", decimal(last))).texts()
		if err != nil || len(slots) == 0 {
			return nil, err
		}
		var runs []driver.Run
		for i, result := range read(ctx, conn, k, slots) {
			reply, err := result.list(3)
			if err != nil {
				return nil, err
			}
			run, _, err := runOf(slots[i], reply)
			if err != nil {
				return nil, err
			}
			if run.Phase != 0 { // forgotten sooner than the index
				runs = append(runs, run)
			}
		}
		return runs, nil
	})
}

func slotsByScript(ctx context.Context, conn Conn, k keys, slots []string) []Reply {
	reads := make([]run, len(slots))
	for i, slot := range slots {
		reads[i] = run{keys: []string{k.lock, k.slot(slot)}}
	}
	return callMany(ctx, conn, slotScript, reads)
}

// runOf reads what the scripts slot and begin say of a slot: the record's
// fields, what is left of the runner's lease, and the server's TIME.
func runOf(slot string, reply []Reply) (driver.Run, time.Time, error) {
	read := driver.Run{Slot: slot}
	if len(reply) != 3 {
		return read, time.Time{}, fmt.Errorf("a slot: %d parts instead of 3", len(reply))
	}
	since, err := serverTime(reply[2])
	if err != nil {
		return read, time.Time{}, err
	}
	now := time.UnixMicro(since.Microseconds()).UTC()
	fields, err := reply[0].list(9)
	if err != nil {
		return read, now, fmt.Errorf("record of a slot: %w", err)
	}
	if fields[2].Null {
		return read, now, nil
	}
	text := func(i int) string { return fields[i].Text }
	number := func(i int) int64 { n, _ := fields[i].number(); return n }
	left, err := reply[1].number()
	read.Phase = driver.Done
	switch {
	case text(0) != "":
		read.Phase, read.Left = driver.Running, time.Duration(left)*time.Millisecond
	case text(1) != "":
		read.Phase = driver.Lost
	}
	read.Token, read.Fence, read.Attempt = text(2), number(3), int(number(4))
	read.Began = time.UnixMicro(number(5)).UTC()
	if read.Phase != driver.Running {
		read.Ended = time.UnixMicro(number(6)).UTC()
	}
	if read.Phase == driver.Done {
		read.Code, read.Note = int(number(7)), text(8)
	}
	return read, now, err
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }
