package worker

import (
	"context"
	"time"

	"github.com/holdfastlock/holdfast/torture/history"
)

// The names of resources that are kept in the store itself, beside the locks.
// What follows is the name of a register.
const (
	InStore   = "sql/"
	ByGuard   = InStore + "guard/" // read and written in one transaction that is tied to the lease
	ByFence   = InStore + "fence/" // shown the fence in each transaction
	ByNothing = InStore + "plain/" // written by whoever believes to have the lock
	Claims    = InStore + "claim/" // jobs, each written once, without a lock
)

// Database is implemented by lockers whose store is a database in which there
// are resources, too.
type Database interface {
	// Read reads a register under a lease, by the name of the event.
	Read(ctx context.Context, lease Lease, e history.Event) (Update, error)
	// Claim claims some jobs of a queue and calls work; then it does them, in the
	// same transaction. It returns how many.
	Claim(ctx context.Context, e history.Event, work func()) (jobs int, err error)
}

// Update is a register that was read.
type Update interface {
	// Version is what was read.
	Version() int64
	// Write replaces it and returns the new version.
	Write(ctx context.Context, e history.Event) (int64, error)
	// Close ends it, also without a write.
	Close(ctx context.Context)
}

// inDatabase uses a resource in the store.
func (c *client) inDatabase(database Database) {
	if c.oneIn(3) {
		c.claim(database)
		return
	}
	if len(c.Names.Registers) == 0 {
		return
	}
	name := c.oneOf([]string{ByGuard, ByFence, ByNothing}) + c.oneOf(c.Names.Registers)
	t := c.acquire(context.Background(), Request{Name: name, TTL: c.TTL, Wait: c.upTo(c.TTL)})
	if t == nil {
		return
	}
	defer t.release(twice)
	c.updateIn(database, t)
}

// updateIn reads a register and writes it. A careful client looks at its lease
// in between. The others, and those that are stopped after the look, are why a
// register is guarded.
func (c *client) updateIn(database Database, t *tenure) {
	ctx, cancel := context.WithTimeout(context.Background(), ages*c.TTL)
	defer cancel()
	var update Update
	t.observe(t.under(history.Read, t.name), func(e *history.Event) (err error) {
		if update, err = database.Read(ctx, t.lease, t.ofProcess(*e)); err == nil {
			e.Version = update.Version()
		}
		return err
	})
	if update == nil {
		return
	}
	defer update.Close(ctx)
	t.work(c.length())
	if c.oneIn(2) && t.lost() {
		return
	}
	write := t.under(history.Write, t.name)
	write.Based = update.Version()
	t.observe(write, func(e *history.Event) (err error) {
		e.Version, err = update.Write(ctx, t.ofProcess(*e))
		return err
	})
}

// length is how long a transaction works: mostly shortly, seldom for longer than
// the TTL.
func (c *client) length() time.Duration {
	switch {
	case c.oneIn(4):
		return c.upTo(c.TTL / 3)
	case c.oneIn(12):
		return 2 * c.TTL
	default:
		return c.upTo(10 * time.Millisecond)
	}
}

func (c *client) claim(database Database) {
	ctx, cancel := context.WithTimeout(context.Background(), ages*c.TTL)
	defer cancel()
	c.observe(history.Event{Do: history.Write, Name: Claims}, func(e *history.Event) error {
		jobs, err := database.Claim(ctx, c.ofProcess(*e), func() { time.Sleep(c.length()) })
		if err == nil && jobs == 0 {
			e.Outcome = history.Skipped
		}
		return err
	})
}

// ofProcess returns the event with the name of this process.
func (c *client) ofProcess(e history.Event) history.Event {
	e.Process = c.Process
	return e
}
