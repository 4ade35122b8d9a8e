package holdfast

import (
	"errors"
	"fmt"
	"time"

	"github.com/holdfastlock/holdfast/driver"
)

// The kinds of failure, to be matched with errors.Is. They are distinct: a
// store that is down never looks like a lock that somebody else has. Where a
// call ended because its context did, errors.Is with the context's error is
// true.
var (
	// ErrHeld means that another holds the lock; the error is a *HeldError.
	ErrHeld = errors.New("lock is held by another")
	// ErrLost means that a lease ended before it was released; the error is a
	// *LostError.
	ErrLost = errors.New("lock was lost")
	// ErrClosed means that the Locker was closed.
	ErrClosed = errors.New("locker is closed")
	// ErrUnreachable means that the store could not be asked or did not answer
	// for Config.StoreTimeout. The lock is not held.
	ErrUnreachable = driver.ErrUnreachable
	// ErrRefused means that the store answered and refuses: a wrong password, a
	// missing permission, a read-only replica, no memory left.
	ErrRefused = driver.ErrRefused
	// ErrMisconfigured means that what was asked can't work as things are set
	// up: contradicting options, or a key of that name that is not a lock.
	ErrMisconfigured = driver.ErrMisconfigured
)

// errReleased ends the context of a lease that was released.
var errReleased = errors.New("lease was released")

// HeldError says who holds a lock that could not be acquired.
type HeldError struct {
	Name string
	// Holder is who held it when the store was last asked; its zero value when
	// the call ended before anybody had asked.
	Holder Holder
	// Waited is how long the call waited.
	Waited time.Duration
	// Err is the context's error if its deadline ended the wait; otherwise nil.
	Err error
}

// Error returns one line for people.
func (e *HeldError) Error() string {
	text := fmt.Sprintf("lock %q is held by another", e.Name)
	if e.Holder.Token != "" {
		text = fmt.Sprintf("lock %q is held by %s", e.Name, e.Holder.Owner())
		if e.Holder.Left >= 0 {
			text += fmt.Sprintf(", for %v more unless it is extended", e.Holder.Left.Round(time.Millisecond))
		}
	}
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Unwrap returns ErrHeld and, where it ended the wait, the context's error.
func (e *HeldError) Unwrap() []error {
	if e.Err == nil {
		return []error{ErrHeld}
	}
	return []error{ErrHeld, e.Err}
}

// LostReason says how a lease was lost.
type LostReason int

const (
	// LostExpired means that the lease could not be renewed before its deadline.
	// Another may or may not have the lock since.
	LostExpired LostReason = iota + 1
	// LostTaken means that the store has another holder for the name.
	LostTaken
	// LostGone means that the store has no holder for the name: the key expired,
	// was evicted or deleted, or the store lost its data.
	LostGone
	// LostMaxHold means that the lease reached the limit set by WithMaxHold.
	LostMaxHold
)

// String returns the reason in words.
func (r LostReason) String() string {
	switch r {
	case LostExpired:
		return "it could not be renewed in time"
	case LostTaken:
		return "the store says that another holds it"
	case LostGone:
		return "it is no longer in the store: expired, evicted, deleted or wiped"
	case LostMaxHold:
		return "it reached its longest allowed hold"
	default:
		return "unknown reason"
	}
}

// LostError says which lease was lost and why. It is the cause of the lease's
// context (context.Cause) when that ends by loss.
type LostError struct {
	Name string
	// Fence is the fencing token of the lease that was lost.
	Fence  int64
	Reason LostReason
	// Err is the last failure of a renewal, where that was why, or what the store
	// knows of how the lock came to be gone: that the server has evicted keys. It may
	// be nil.
	Err error
}

// Error returns one line for people.
func (e *LostError) Error() string {
	text := fmt.Sprintf("lock %q was lost: %v", e.Name, e.Reason)
	if e.Err != nil {
		text += " (" + e.Err.Error() + ")"
	}
	return text
}

// Unwrap returns ErrLost alone: a lock that was lost because the store could not
// be reached is lost, not unreachable.
func (e *LostError) Unwrap() error { return ErrLost }

func misconfigured(format string, args ...any) error {
	return &driver.Error{Kind: ErrMisconfigured, Err: fmt.Errorf(format, args...)}
}
