package redisstore

import (
	"context"
	"time"

	"github.com/holdfastlock/holdfast/driver"
)

// slotFields are what the scripts read of a slot's record, in their order.
var slotFields = []string{"open", "lost", "token", "fence", "attempt", "began", "ended", "code", "note"}

// slotReads are the commands of the script slot.
func slotReads(lock, record string) []Command {
	return []Command{
		command(1, append([]string{"HMGET", record}, slotFields...)...),
		command(1, "GET", lock), command(1, "PTTL", lock), command(0, "TIME"),
	}
}

// slotParts makes of the answers to them what the script slot answers.
func slotParts(read []Reply) []Reply {
	return []Reply{read[0], leaseOf(read[0], read[1], read[2]), read[3]}
}

// leaseOf returns what is left of the lock if it is the runner's, in ms, else 0.
func leaseOf(record, lock, left Reply) Reply {
	if len(record.List) == len(slotFields) && (lock.Null || lock.Text != record.List[2].Text) {
		return Reply{}
	}
	return left
}

// readSlot is the script slot.
func (s *Store) readSlot(ctx context.Context, lock, record string) ([]Reply, error) {
	read, err := s.together(ctx, lock, slotReads(lock, record))
	if err != nil {
		return nil, err
	}
	return slotParts(read), nil
}

// slotsPlain reads the records of many slots, as Runs does by a script.
func slotsPlain(ctx context.Context, conn Conn, k keys, slots []string) []Reply {
	now := conn.Do(ctx, command(0, "TIME"))
	reads := []Command{command(1, "GET", k.lock), command(1, "PTTL", k.lock)}
	for _, slot := range slots {
		reads = append(reads, slotReads(k.lock, k.slot(slot))[0])
	}
	read := conn.DoMany(ctx, reads)
	replies := make([]Reply, len(slots))
	for i, record := range read[2:] {
		parts := []Reply{record, leaseOf(record, read[0], read[1]), now}
		replies[i] = Reply{List: parts, Err: firstError(append(parts, read[0]))}
	}
	return replies
}

// beginPlain is BeginSlot without scripts: what the script begin does.
func (s *Store) beginPlain(ctx context.Context, k keys, record string, req driver.BeginRequest) (driver.BeginResult, error) {
	return apart(ctx, s, k.lock, func(ctx context.Context, t transaction) (result driver.BeginResult, err error) {
		reads := append(slotReads(k.lock, record), command(1, "HMGET", k.companion(), "token", "fence"))
		_, err = t.run(ctx, []string{k.lock, record, k.companion()}, reads, func(read []Reply) (writes []Command, err error) {
			result = driver.BeginResult{Verdict: driver.NotHeld}
			if err := firstError(read); err != nil || !heldBy(read[1], read[4], req.Token, req.Fence) {
				return nil, err
			}
			if read[2].Int == noKey {
				return nil, errMeanwhile
			}
			last, now, err := runOf(req.Slot, slotParts(read))
			if err != nil {
				return nil, err
			}
			result = driver.BeginResult{Verdict: req.Judge(last, now), Run: last}
			left := time.Duration(read[2].Int) * time.Millisecond
			return beginWrites(k, record, req, &result, now, left), nil
		})
		return result, err
	})
}

// heldBy says that the lock is held by the grant of this token and fence.
func heldBy(lock, companion Reply, token string, fence int64) bool {
	held := !lock.Null && lock.Text == token && len(companion.List) == 2
	return held && companion.List[0].Text == token && companion.List[1].Text == decimal(fence)
}

// beginWrites are what a verdict makes of the slot, of which the last run is in
// the result.
func beginWrites(k keys, record string, req driver.BeginRequest, result *driver.BeginResult, now time.Time, left time.Duration) []Command {
	run, moment := &result.Run, decimal(now.UnixMicro())
	switch {
	case result.Verdict == driver.Ended && run.Phase == driver.Running:
		run.Phase, run.Ended, run.Left = driver.Lost, now, 0
		return []Command{command(1, "HSET", record, "lost", "1", "ended", moment), command(1, "HDEL", record, "open")}
	case result.Verdict == driver.Begun && (run.Phase != driver.Running || run.Token != req.Token): // else begun already
		*run = driver.Run{
			Slot: req.Slot, Phase: driver.Running, Token: req.Token, Fence: req.Fence,
			Attempt: run.Attempt + 1, Began: now, Left: left,
		}
		keep := milliseconds(driver.RunningKeep)
		return []Command{
			// The index comes first: an entry without a record is not listed.
			command(1, "ZADD", k.runs(), moment, req.Slot),
			command(1, "ZREMRANGEBYRANK", k.runs(), "0", decimal(-1-driver.MaxRuns)),
			command(1, "PEXPIRE", k.runs(), keep),
			command(1, "HSET", record, "open", "1", "token", req.Token, "fence", decimal(req.Fence),
				"attempt", decimal(int64(run.Attempt)), "began", moment),
			command(1, "PEXPIRE", record, keep),
		}
	default:
		return nil
	}
}

// finishPlain is FinishSlot without scripts: what the script finish does, but
// refused when memory is full where transactions are.
func (s *Store) finishPlain(ctx context.Context, k keys, record string, req driver.FinishRequest) (driver.Answer, error) {
	return apart(ctx, s, k.lock, func(ctx context.Context, t transaction) (answer driver.Answer, err error) {
		reads := append(slotReads(k.lock, record),
			command(1, "HMGET", k.companion(), "token", "fence"), command(1, "PTTL", k.runs()))
		_, err = t.run(ctx, []string{k.lock, record, k.companion()}, reads, func(read []Reply) (writes []Command, err error) {
			if err := firstError(read); err != nil {
				return nil, err
			}
			run, now, err := runOf(req.Slot, slotParts(read))
			if err != nil {
				return nil, err
			}
			if answer = finishable(run, read[1], read[4], req); answer != driver.Mine || run.Phase == driver.Done {
				return nil, nil
			}
			return finishWrites(k, record, req, now, read[5].Int), nil
		})
		return answer, err
	})
}

// finishable says whether a run can be made done, or has been.
func finishable(run driver.Run, lock, companion Reply, req driver.FinishRequest) driver.Answer {
	mine := run.Token == req.Token && run.Fence == req.Fence
	switch {
	case mine && run.Phase == driver.Done:
		return driver.Mine
	case lock.Null:
		return driver.Gone
	case !heldBy(lock, companion, req.Token, req.Fence):
		return driver.Taken
	case run.Phase == 0:
		return driver.Gone
	case !mine || run.Phase != driver.Running:
		return driver.Taken
	default:
		return driver.Mine
	}
}

// finishWrites makes a run done. Index is how long the index lasts, in ms.
func finishWrites(k keys, record string, req driver.FinishRequest, now time.Time, index int64) []Command {
	keep := milliseconds(req.Keep)
	writes := []Command{
		command(1, "HDEL", record, "open"),
		command(1, "HSET", record, "ended", decimal(now.UnixMicro()), "code", decimal(int64(req.Code)), "note", req.Note),
		command(1, "PEXPIRE", record, keep),
	}
	if time.Duration(index)*time.Millisecond < req.Keep {
		writes = append(writes, command(1, "PEXPIRE", k.runs(), keep))
	}
	return writes
}
