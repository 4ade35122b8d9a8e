package worker

import (
	"context"
	"time"

	"github.com/holdfastlock/holdfast/torture/history"
)

// Locker is a library of locks under torture. Its methods are for many
// goroutines.
type Locker interface {
	// Acquire asks for a lock: once if wait is 0, else until wait is over or ctx
	// ends.
	Acquire(ctx context.Context, request Request) (Lease, error)
	// Outcome sorts an error of any method of the library; nil is OK.
	Outcome(err error) history.Outcome
	// Close gives back what the library uses.
	Close(ctx context.Context) error
}

// Request says what to acquire.
type Request struct {
	Name string
	TTL  time.Duration
	Wait time.Duration
	// Plain asks for a lease that the library does not extend by itself.
	Plain bool
	// Unfenced asks for a lease without a fencing token.
	Unfenced bool
	// LockDelay asks the store to keep the name for so long after the end of a
	// lease that is not released. It is 0 for a library that has none, as long as
	// Names.Delayed is empty.
	LockDelay time.Duration
	// Extended is to be called when the library itself has extended the lease,
	// with until when it is trusted now.
	Extended func(deadline time.Time)
}

// Lease is one holding of a lock. Its methods are for many goroutines.
type Lease interface {
	// Fence is 0 if the library has no fencing tokens, or was asked for none.
	Fence() int64
	// Deadline is until when the library says that the lease can be trusted,
	// with Go's monotonic reading.
	Deadline() time.Time
	// Done is closed when the library tells that the lease was lost. It may be
	// closed by a release as well, and is nil if a loss is never told.
	Done() <-chan struct{}
	// Extend makes the lease last its TTL from now.
	Extend(ctx context.Context) error
	// Release may be called again after an error.
	Release(ctx context.Context) error
}

// SlotRunner is implemented by libraries that run a job once per slot.
type SlotRunner interface {
	// RunSlot calls work unless the slot is done or running elsewhere, and
	// returns the slot, if it came to one. An empty slot stands for whatever slot
	// it is by the server's clock. Without an error the slot is done now by this
	// call, or skipped, because that is left to another.
	RunSlot(ctx context.Context, run Run) (slot string, skipped bool, err error)
}

// Run says which slot to run, and how.
type Run struct {
	Job  string
	Slot string
	// StandBy is how long to wait for the end of another's run, to take over.
	StandBy time.Duration
	// Extended is as in Request.
	Extended func(deadline time.Time)
	Work     func(slot string, attempt int, lease Lease)
}
