// Package holdfastgocron makes a job of gocron (github.com/go-co-op/gocron/v2)
// run once per tick, on whichever of many hosts comes first.
//
// gocron's own lock is released when the job ends. A host whose clock is slow, or
// whose interval began later, finds the lock free and runs the tick again. So
// Locker and Task keep a slot record in the store, as package once does: who ran
// which slot, and that it is done.
//
// # Which tick it is
//
// gocron tells a locker the name of the job and nothing else. So the tick is not
// what gocron planned, but the slot that the once.Schedule has when the job is
// started, by the store's clock: once.Every and once.Cron say which. Give the
// rhythm of the job. A host that comes shortly before a slot belongs to it and
// waits for it; see once.Every.
//
// # Locker, Task or Elector
//
// Task is the whole of package once: its function gets a context that ends when
// the lease is lost, and what it returns is recorded. Locker leaves the job's
// function as it is, which then can't be told of a loss; see Locker. Elector lets
// one host run all jobs, and says nothing about ticks: when the leader changes, a
// tick may run twice or not at all. A job that must run once per tick is a Task
// there too.
//
// gocron calls no locker where there is an elector.
package holdfastgocron
