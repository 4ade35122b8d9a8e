package driver

import (
	"context"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Limits of what is remembered of runs.
const (
	// MaxSlot is the longest text of a slot, in bytes.
	MaxSlot = 120
	// MaxRuns is how many runs of a job can be listed.
	MaxRuns = 100
	// MaxNote is the longest FinishRequest.Note, in bytes.
	MaxNote = 256
	// RunningKeep is how long a run that never ends is remembered at the least.
	RunningKeep = 30 * 24 * time.Hour
)

// SlotKeeper is implemented by stores that remember which slots of a job have
// run, so that a job runs once per slot and not only one at a time. The
// runner's lease is an ordinary lock on the job's name: it is acquired,
// extended and released as any other, and what follows compares its token.
type SlotKeeper interface {
	// InspectSlot returns what is known of a slot, without changing anything,
	// and the store's time, by which slots are judged. A slot that nobody has
	// begun has the phase 0; an empty slot is one of those, and asks for the
	// time alone.
	InspectSlot(ctx context.Context, job, slot string) (run Run, now time.Time, err error)

	// BeginSlot makes the slot running if the token holds the job and the slot
	// may run, in one atomic step; see Verdict. It is idempotent by token: a
	// run that the token began already is answered with Begun, unchanged.
	//
	// After an error for which Unknown is true the run may have been begun.
	BeginSlot(ctx context.Context, req BeginRequest) (BeginResult, error)

	// FinishSlot makes the slot done if it is the run of this token and fence,
	// and the token still holds the job, compared and done in one atomic step.
	// Mine means that it is done, also when an earlier call did it. Gone means
	// that nobody holds the job, or that the store no longer knows the run; Taken
	// that another holds the job or has begun the slot. Then nothing was changed.
	FinishSlot(ctx context.Context, req FinishRequest) (Answer, error)

	// Runs returns the last runs of a job, one for each slot, those begun last
	// first; at most limit, and MaxRuns.
	Runs(ctx context.Context, job string, limit int) ([]Run, error)
}

// Phase is how far the run of a slot has come.
type Phase int

const (
	// Running means that it was begun. It is alive if Run.Left is positive; else
	// its runner has crashed or lost its lease, and it may be taken over.
	Running Phase = iota + 1
	// Done means that it has ended, well or not; see Run.Code.
	Done
	// Lost means that its runner crashed or lost its lease, and that nobody is to
	// take it over.
	Lost
)

// String returns the word for the phase.
func (p Phase) String() string {
	switch p {
	case Running:
		return "running"
	case Done:
		return "done"
	case Lost:
		return "lost"
	default:
		return "not begun"
	}
}

// Run is what a store knows of one slot: its last attempt.
type Run struct {
	Slot  string
	Phase Phase
	// Token and Fence are those of the runner's lease on the job.
	Token string
	Fence int64
	// Attempt counts from 1.
	Attempt int
	// Began is when the attempt was begun, by the store's clock.
	Began time.Time
	// Ended is when it was done or found lost, by the store's clock; zero
	// before.
	Ended time.Time
	// Code is the exit code; 0 means that it went well.
	Code int
	// Note says in a few words how it ended; may be empty.
	Note string
	// Left is how long the runner's lease lasts unless it is extended; not
	// positive when it has ended, or the phase is not Running.
	Left time.Duration
}

// Owner returns the readable part of the runner's token.
func (r Run) Owner() string { return tokenOwner(r.Token) }

// BeginRequest asks to run a slot.
type BeginRequest struct {
	Job  string
	Slot string // see CheckSlot
	// Token and Fence are those of the lease on the job that the runner holds.
	Token string
	Fence int64
	// MaxAttempts is how many attempts there may be; 0 means no limit.
	MaxAttempts int
	// RetryFailed makes a slot that is done with a code other than 0 run again.
	RetryFailed bool
	// NotAfter is the last moment, by the store's clock, at which the slot may
	// be begun; zero means no limit.
	NotAfter time.Time
}

// BeginResult is the answer to a BeginRequest.
type BeginResult struct {
	Verdict Verdict
	// Run is what is now known of the slot: the run just begun, or what stood in
	// the way. Not set with NotHeld.
	Run Run
}

// Verdict is what became of a BeginRequest.
type Verdict int

const (
	// Begun means that the slot is running, by the token of the request: nobody
	// had begun it, or its runner's lease had ended and it was taken over with
	// the next attempt.
	Begun Verdict = iota + 1
	// Ended means that the slot is done or lost. A run whose lease has ended
	// with its last attempt becomes lost by being asked for.
	Ended
	// TooLate means that NotAfter was over.
	TooLate
	// NotHeld means that the token does not hold the job, or by another grant
	// than that of the fence.
	NotHeld
)

// Judge judges a slot of which last is known, by a store's clock, for a token
// that holds the job. It is the rule that all stores follow.
func (req BeginRequest) Judge(last Run, now time.Time) Verdict {
	exhausted := req.MaxAttempts > 0 && last.Attempt >= req.MaxAttempts
	switch {
	case last.Phase == Running && last.Token == req.Token:
		return Begun
	case last.Phase == Lost,
		last.Phase == Done && (last.Code == 0 || !req.RetryFailed || exhausted),
		last.Phase == Done && last.Token == req.Token, // a request that arrives late
		last.Phase == Running && exhausted:
		return Ended
	case !req.NotAfter.IsZero() && now.After(req.NotAfter):
		return TooLate
	default:
		return Begun
	}
}

// FinishRequest says that a run has ended.
type FinishRequest struct {
	Job   string
	Slot  string
	Token string
	Fence int64
	// Code is the exit code; 0 means that it went well.
	Code int
	// Note says in a few words how it ended, in MaxNote bytes; may be empty.
	Note string
	// Keep is how long the slot is known to be done, at the least.
	Keep time.Duration
}

// CheckSlot returns an *Error of the kind ErrMisconfigured unless the text can be
// that of a slot: 1 to MaxSlot bytes of UTF-8 without control characters.
func CheckSlot(slot string) error {
	var reason string
	switch {
	case slot == "":
		reason = "is empty"
	case len(slot) > MaxSlot:
		reason = fmt.Sprintf("has %d bytes, more than %d", len(slot), MaxSlot)
		slot = strings.ToValidUTF8(slot[:40], "") + "…"
	case !utf8.ValidString(slot):
		reason = "is not valid UTF-8"
	case strings.ContainsFunc(slot, unicode.IsControl):
		reason = "has a control character"
	default:
		return nil
	}
	return &Error{Kind: ErrMisconfigured, Err: fmt.Errorf("slot %q %s", slot, reason)}
}
