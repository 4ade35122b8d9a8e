// Package memstore keeps locks in the memory of one process. It is for the
// tests of programs that use holdfast, and it is the executable specification
// of the driver contract: where another store answers differently, the other
// store is wrong.
//
// Locks kept here exclude nobody outside the process, and end with it.
package memstore

import (
	"context"
	"sync"
	"time"

	"github.com/holdfastlock/holdfast/driver"
)

// Store is a driver.Store, driver.Queuer, driver.Notifier, driver.Lister,
// driver.SlotKeeper and driver.FenceRaiser. It starts no goroutine and sets no timer, so that it can be
// used in a testing/synctest bubble. All methods may be called by many goroutines at once.
type Store struct {
	mu          sync.Mutex
	offset      time.Duration // of the store's clock from the machine's
	locks       map[string]*lock
	slots       map[string]map[string]*slotRecord // by job and slot
	subscribers map[string]map[chan struct{}]bool
	inboxes     map[string]*inbox
	opened      int       // how many inboxes so far
	told        []message // by the operation under way, and not delivered yet
	fault       func(op string) Fault
}

var (
	_ driver.Store       = (*Store)(nil)
	_ driver.Queuer      = (*Store)(nil)
	_ driver.Notifier    = (*Store)(nil)
	_ driver.Lister      = (*Store)(nil)
	_ driver.SlotKeeper  = (*Store)(nil)
	_ driver.FenceRaiser = (*Store)(nil)
)

// New returns an empty store whose clock is that of the machine.
func New() *Store {
	return &Store{
		locks:       make(map[string]*lock),
		slots:       make(map[string]map[string]*slotRecord),
		subscribers: make(map[string]map[chan struct{}]bool),
		inboxes:     make(map[string]*inbox),
	}
}

// Advance moves the store's clock by d, which may be negative, and nobody
// else's: to the holders no time has passed. What has expired once stays so.
func (s *Store) Advance(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.offset += d
}

// Wipe loses all data, as a server that starts again empty does. Nobody is
// notified. The clock moves on by a millisecond, since a real loss takes longer
// than that: fences grow although, in a bubble, the clock stands still.
func (s *Store) Wipe() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.locks)
	clear(s.slots)
	s.offset += time.Millisecond
}

// Capabilities says that all is supported. Fences survive a wipe because they
// begin at the clock.
func (s *Store) Capabilities() driver.Capabilities {
	return driver.Capabilities{Shared: true, FenceSurvivesRestart: true, FenceSurvivesWipe: true}
}

// Acquire implements driver.Store.
func (s *Store) Acquire(ctx context.Context, req driver.AcquireRequest) (driver.AcquireResult, error) {
	if err := driver.CheckName(req.Name); err != nil {
		return driver.AcquireResult{}, err
	}
	if req.Mode == driver.Shared && req.Limit < 1 {
		return driver.AcquireResult{}, &driver.Error{Kind: driver.ErrMisconfigured, Hint: "a shared acquire needs a limit of at least 1"}
	}
	return carryOut(ctx, s, "acquire", func(now time.Time) (driver.AcquireResult, error) {
		return s.current(req.Name, now).acquire(req, now)
	})
}

// Extend implements driver.Store.
func (s *Store) Extend(ctx context.Context, reqs []driver.ExtendRequest) []driver.ExtendResult {
	results, err := carryOut(ctx, s, "extend", func(now time.Time) ([]driver.ExtendResult, error) {
		results := make([]driver.ExtendResult, len(reqs))
		for i, req := range reqs {
			results[i] = s.extend(req, now)
		}
		return results, nil
	})
	if err == nil {
		return results
	}
	results = make([]driver.ExtendResult, len(reqs))
	for i := range results {
		results[i].Err = err
	}
	return results
}

func (s *Store) extend(req driver.ExtendRequest, now time.Time) driver.ExtendResult {
	if err := driver.CheckName(req.Name); err != nil {
		return driver.ExtendResult{Err: err}
	}
	l := s.current(req.Name, now)
	answer := l.compare(req.Token)
	if answer == driver.Mine {
		l.find(req.Token).lastUntil(now.Add(req.TTL))
	}
	return driver.ExtendResult{Answer: answer}
}

// Release implements driver.Store.
func (s *Store) Release(ctx context.Context, req driver.ReleaseRequest) (driver.Answer, error) {
	if err := driver.CheckName(req.Name); err != nil {
		return 0, err
	}
	return carryOut(ctx, s, "release", func(now time.Time) (driver.Answer, error) {
		l := s.current(req.Name, now)
		answer := l.release(req, now)
		if answer == driver.Mine {
			s.handOn(l, req.Name, place{}, now)
			s.notify(req.Name)
		}
		return answer, nil
	})
}

// Inspect implements driver.Store.
func (s *Store) Inspect(ctx context.Context, name string) (driver.State, error) {
	if err := driver.CheckName(name); err != nil {
		return driver.State{}, err
	}
	return carryOut(ctx, s, "inspect", func(now time.Time) (driver.State, error) {
		return s.current(name, now).state(name, now), nil
	})
}

// carryOut does one operation in one atomic step, at one moment of the store's
// clock, unless the context has ended or a fault was asked for.
func carryOut[T any](ctx context.Context, s *Store, op string, step func(now time.Time) (T, error)) (T, error) {
	var nothing T
	if ctx.Err() != nil {
		return nothing, driver.NoAnswer(ctx, ctx.Err())
	}
	fault := s.nextFault(op)
	if fault.Before != nil {
		return nothing, fault.Before
	}
	s.mu.Lock()
	answer, err := step(time.Now().Add(s.offset))
	told := s.told
	s.told = nil
	s.mu.Unlock()
	s.deliver(told)
	if fault.After != nil {
		return nothing, fault.After
	}
	return answer, err
}
