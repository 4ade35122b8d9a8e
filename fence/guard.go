package fence

import "context"

// Guard remembers for each resource the largest fence that it has seen, and
// makes changes under it. Memory, filefence.Dir and sqlfence.Guard are Guards. All
// methods may be called by many goroutines at once.
type Guard interface {
	// Touch shows a fence to the resource: from now on every smaller one is
	// refused. A holder does this before it reads what it is going to change.
	// Owner says who holds the lease, in a way that no two leases share: a host
	// with a process and a number, but not the lease's token, which is a secret.
	//
	// The error is a *StaleError if a larger fence was seen, a *ConflictError if
	// the same one was shown by another owner, ErrNoFence, or why the Guard can't
	// tell. A refused fence leaves everything as it was.
	Touch(ctx context.Context, resource, owner string, fence int64) error

	// Do shows a fence to the resource as Touch does, and if it is not refused
	// calls change, in one step: no other fence is shown to the resource
	// meanwhile, so that none can be accepted between the check and the change.
	// The fence was seen also if change fails. A context that ends, ends the wait
	// for others and is handed to change, but the resource stays closed until
	// change has returned. Change must not use the Guard for the same resource.
	//
	// The error is that of Touch, or of change.
	Do(ctx context.Context, resource, owner string, fence int64, change func(context.Context) error) error
}
