package fence

import (
	"errors"
	"fmt"
)

// The reasons to refuse, to be matched with errors.Is.
var (
	// ErrStale means that a later holder was here; the error is a *StaleError.
	ErrStale = errors.New("fence is stale")
	// ErrConflict means that two owners came with the same fence; the error is a
	// *ConflictError.
	ErrConflict = errors.New("fence belongs to another owner")
	// ErrNoFence means that a fence was 0 or less: the lease was acquired
	// without one, and can't be ordered.
	ErrNoFence = errors.New("no fence was given")
)

// StaleError says that the resource has seen a larger fence than the one it was
// shown. The lease that it came from was lost: stop.
type StaleError struct {
	Resource string
	// Fence is what was shown, Newest the largest that the resource has seen.
	Fence, Newest int64
}

// Error returns one line for people.
func (e *StaleError) Error() string {
	return fmt.Sprintf("fence %d is stale: resource %q has seen %d", e.Fence, e.Resource, e.Newest)
}

// Unwrap returns ErrStale.
func (e *StaleError) Unwrap() error { return ErrStale }

// ConflictError says that two owners have shown the same fence, which a lock
// never grants twice: the store lost its data and its clock went back, two locks
// guard one resource, or an owner's name is not its own. Nobody can say which
// of both is the holder, so the one that came second is refused.
type ConflictError struct {
	Resource string
	Fence    int64
	// Owner came second, First was there before.
	Owner, First string
}

// Error returns one line for people.
func (e *ConflictError) Error() string {
	return fmt.Sprintf("fence %d of %q was shown to resource %q by %q before: find out how both got the same number",
		e.Fence, e.Owner, e.Resource, e.First)
}

// Unwrap returns ErrConflict.
func (e *ConflictError) Unwrap() error { return ErrConflict }
