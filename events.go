package holdfast

import "time"

// Events are functions that a Locker calls when something happened, for logs,
// metrics and traces. Each may be nil. They are called on the goroutine where
// it happened, which may be the one that keeps all leases alive: they must
// return soon and must not call the Locker.
type Events struct {
	// Acquired is called when a lease was granted; Took is how long that took
	// since the call.
	Acquired func(Event)
	// Waiting is called when a call of Acquire begins to wait; Err is the
	// *HeldError it met, or nil if it stands behind others of this process.
	Waiting func(Event)
	// Extended is called when a renewal moved the deadline of a lease.
	Extended func(Event)
	// ExtendFailed is called when a renewal was not answered or was refused, and
	// will be tried again until the deadline.
	ExtendFailed func(Event)
	// Lost is called once for each lease that was lost; Err is the *LostError.
	Lost func(Event)
	// Released is called when a lease was released; Took is how long it was held.
	Released func(Event)
	// ReleaseFailed is called when the store could not be told of a release; the
	// lock stays taken until its TTL ends or Release is called again.
	ReleaseFailed func(Event)
}

// Event is what happened to a lock. Fields that do not apply are zero.
type Event struct {
	Name  string
	Fence int64
	// Deadline is until when the lease is trusted, by this machine's clock.
	Deadline time.Time
	Took     time.Duration
	Err      error
}

func emit(f func(Event), e Event) {
	if f != nil {
		f(e)
	}
}
