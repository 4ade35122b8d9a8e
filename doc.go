// Package holdfast is a distributed lock: one holder of a name at a time, among
// goroutines, processes and hosts that use the same store.
//
// # What it promises
//
// A lock is held under a lease. A holder that crashes loses it when the lease's
// TTL ends; one that lives keeps it by renewals. As long as the store keeps its
// data and its clock and the holder's run at speeds that differ by less than 1 %,
// no two leases of one name are trusted at the same moment: a lease is trusted
// until its TTL, counted from before the request was sent, less 1 % for drift
// and less 10 ms or 1 % for lateness; its context ends then. An answer that came
// late or not at all moves nothing.
//
// # What no lock promises
//
// A program can be paused between looking at the clock and acting, for longer
// than any lease: a garbage collection, a suspended virtual machine, a slow disk.
// And a store can lose its data: a failover to a replica that had not heard of
// the lock, an eviction, a wiped server. So a lock with a lease is right where a
// double run wastes work, and is not enough where it corrupts data. There, let
// the resource check the fencing token, Lease.Fence: it grows with every grant,
// across releases, expiries, restarts and lost data, and a resource that refuses
// a number smaller than the largest it has seen can't be damaged by an old
// holder.
//
// # Clocks
//
// Nobody compares the clocks of two machines. The store counts a TTL on its own
// clock; the holder counts the same time on its own, by Go's monotonic clock or
// the one that goes on while the machine is suspended, whichever counted more.
// Wall clocks may be wrong and may jump. Only the fencing token after a loss of
// all data relies on the store's wall clock not going back.
//
// # Use
//
// A Locker belongs to a store (package redisstore, sqlitestore or memstore).
// Locker.Do runs a function under a lock and is what most programs need.
// TryAcquire and Acquire return a Lease, to be released. A lease is renewed at a
// third of its TTL by one goroutine for all leases of the Locker.
//
// Five things are different errors, to be told apart by errors.Is: another holds
// the lock (ErrHeld), the lock was lost (ErrLost), the store can't be reached
// (ErrUnreachable), the context ended (context.Canceled, DeadlineExceeded), and
// the store refuses or things are set up wrongly (ErrRefused, ErrMisconfigured).
package holdfast
