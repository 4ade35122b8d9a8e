package once

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/holdfastlock/holdfast"
	"github.com/holdfastlock/holdfast/driver"
)

// call is one call of Run.
type call struct {
	locker   *holdfast.Locker
	keeper   driver.SlotKeeper
	job      string
	settings settings
	occasion occasion
	now      time.Time // the store's, when it was last asked
	waited   bool      // for another that had the lock
	result   Result
}

// arrive finds out which slot it is, waits for it to begin, and looks what is
// known of it.
func (c *call) arrive(ctx context.Context, schedule Schedule) error {
	if schedule.fixed == "" { // else the time does not matter
		if err := c.look(ctx); err != nil {
			return err
		}
	}
	o, err := schedule.at(c.now)
	if err != nil {
		return err
	}
	c.occasion = o
	c.result.Slot, c.result.Starts = o.slot, o.starts
	for {
		if err := sleep(ctx, o.starts.Sub(c.now)); err != nil {
			return fmt.Errorf("waiting for slot %s of %q: %w", o.slot, c.job, err)
		}
		if err := c.look(ctx); err != nil || !c.now.Before(o.starts) {
			return err
		}
	}
}

// look asks the store for its time, and for the slot once that is known.
func (c *call) look(ctx context.Context) error {
	return c.locker.Persist(ctx, func(ctx context.Context) (err error) {
		c.result.Run, c.now, err = c.keeper.InspectSlot(ctx, c.job, c.occasion.slot)
		return err
	})
}

// sleep returns after d or with the error of the context.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// run skips the slot, or acquires the job and runs it.
func (c *call) run(ctx context.Context, fn func(context.Context, Attempt) error) error {
	last := c.result.Run
	switch alive := last.Phase == driver.Running && last.Left > 0; {
	case alive && !c.settings.standBy:
		c.result.Outcome = Running
		return nil
	case last.Phase != driver.Running: // else the store has to judge, and to mark it lost
		if verdict := c.request("", 0).Judge(last, c.now); verdict != driver.Begun {
			c.skip(verdict)
			return nil
		}
	}
	lease, err := c.acquire(ctx)
	if lease == nil {
		return err
	}
	// The end of a lease that is done with is nobody's loss, and a store that
	// can't be told frees it later.
	defer func() { _ = lease.Release(ctx) }()
	verdict, err := c.begin(ctx, lease)
	switch {
	case err != nil:
		return err
	case verdict == driver.NotHeld:
		return &holdfast.LostError{Name: c.job, Fence: lease.Fence(), Reason: holdfast.LostGone}
	case verdict != driver.Begun:
		c.skip(verdict)
		return nil
	}
	c.result.Outcome = Ran
	return c.do(ctx, lease, fn)
}

// skip sets the outcome of a slot that may not be begun.
func (c *call) skip(verdict driver.Verdict) {
	switch {
	case verdict == driver.TooLate:
		c.result.Outcome = Late
	case c.result.Run.Phase == driver.Lost:
		c.result.Outcome = Lost
	case c.waited:
		c.result.Outcome = StoodBy
	default:
		c.result.Outcome = Done
	}
}

// acquire acquires the job. It returns no lease and no error if another is
// running the slot and the call does not stand by.
func (c *call) acquire(ctx context.Context) (*holdfast.Lease, error) {
	lease, err := c.locker.TryAcquire(ctx, c.job, holdfast.WithPurpose(c.purpose()))
	if errors.Is(err, holdfast.ErrHeld) && c.settings.standBy {
		c.waited = true
		opts := []holdfast.AcquireOption{holdfast.WithPurpose(c.purpose())}
		if c.settings.limit != Forever {
			opts = append(opts, holdfast.WithMaxWait(c.settings.limit))
		}
		lease, err = c.locker.Acquire(ctx, c.job, opts...)
	}
	// Whoever has the lock for this slot may not have begun it yet.
	var held *holdfast.HeldError
	if errors.As(err, &held) && strings.HasPrefix(held.Holder.Purpose+" ", c.mark()+" ") {
		c.result.Outcome = Running
		if !c.settings.standBy {
			return nil, nil
		}
	}
	return lease, err
}

// mark begins the purpose of every lease that is for this slot; the end of the
// purpose or a space follows. The quotes, doubled inside, keep a slot apart from
// those that begin as it does.
func (c *call) mark() string {
	return `slot "` + strings.ReplaceAll(c.occasion.slot, `"`, `""`) + `"`
}

// maxPurpose is the longest purpose that a Locker takes, in bytes.
const maxPurpose = 256

func (c *call) purpose() string {
	text := c.mark()
	if c.settings.purpose != "" {
		text += " " + c.settings.purpose
	}
	return strings.ToValidUTF8(text[:min(len(text), maxPurpose)], "")
}

func (c *call) request(token string, fence int64) driver.BeginRequest {
	req := driver.BeginRequest{
		Job: c.job, Slot: c.occasion.slot, Token: token, Fence: fence,
		MaxAttempts: c.settings.maxAttempts, RetryFailed: c.settings.retryFailed,
	}
	if c.settings.startDeadline > 0 {
		req.NotAfter = c.occasion.starts.Add(c.settings.startDeadline)
	}
	return req
}

func (c *call) begin(ctx context.Context, lease *holdfast.Lease) (driver.Verdict, error) {
	var result driver.BeginResult
	err := c.locker.Persist(ctx, func(ctx context.Context) (err error) {
		result, err = c.keeper.BeginSlot(ctx, c.request(lease.Token(), lease.Fence()))
		return err
	})
	if err == nil && result.Verdict != driver.NotHeld {
		c.result.Run = result.Run
	}
	return result.Verdict, err
}

// do calls fn and marks the slot done.
func (c *call) do(ctx context.Context, lease *holdfast.Lease, fn func(context.Context, Attempt) error) error {
	work, end := context.WithCancelCause(ctx)
	defer end(nil)
	stop := context.AfterFunc(lease.Context(), func() { end(context.Cause(lease.Context())) })
	defer stop()
	err := fn(work, Attempt{
		Slot: c.occasion.slot, Starts: c.occasion.starts, Number: c.result.Run.Attempt, Lease: lease,
	})
	if errors.Is(err, ErrNotDone) {
		return err
	}
	if failed := c.finish(ctx, lease, err); failed != nil && !errors.Is(err, failed) {
		return errors.Join(err, failed)
	}
	return err
}

// finish marks the slot done. While ctx lasts it goes on trying as long as the
// lease, since a slot that is not marked runs again.
func (c *call) finish(ctx context.Context, lease *holdfast.Lease, failure error) error {
	req := driver.FinishRequest{
		Job: c.job, Slot: c.occasion.slot, Token: lease.Token(), Fence: lease.Fence(),
		Code: exitCode(failure), Note: note(failure), Keep: c.occasion.keep,
	}
	for lease.Context().Err() == nil {
		var answer driver.Answer
		err := c.locker.Persist(lease.Context(), func(ctx context.Context) (err error) {
			answer, err = c.keeper.FinishSlot(ctx, req)
			return err
		})
		switch {
		case err == nil && answer == driver.Mine:
			return nil
		case err == nil:
			return &holdfast.LostError{Name: c.job, Fence: lease.Fence(), Reason: lossOf(answer)}
		case lease.Context().Err() == nil && (ctx.Err() != nil || !errors.Is(err, holdfast.ErrUnreachable)):
			return fmt.Errorf("slot %q of %q ran, but could not be marked done: %w", req.Slot, req.Job, err)
		}
	}
	return context.Cause(lease.Context())
}

func lossOf(answer driver.Answer) holdfast.LostReason {
	if answer == driver.Taken {
		return holdfast.LostTaken
	}
	return holdfast.LostGone
}

// exitCode returns the code by which the slot is remembered.
func exitCode(err error) int {
	coded := interface{ ExitCode() int }(nil)
	switch {
	case err == nil:
		return 0
	case errors.As(err, &coded) && coded.ExitCode() > 0:
		return coded.ExitCode()
	default:
		return 1
	}
}

// note returns the error in one line that is not too long.
func note(err error) string {
	if err == nil {
		return ""
	}
	text := strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, err.Error())
	return strings.ToValidUTF8(text[:min(len(text), driver.MaxNote)], "")
}
