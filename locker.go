package holdfast

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/holdfastlock/holdfast/driver"
)

// State is what the store knows of a name; see driver.State.
type State = driver.State

// Holder is one holding of a name; see driver.Holder.
type Holder = driver.Holder

// Config is what is decided once for a Locker. Its zero value is ready to use.
type Config struct {
	// Owner is the readable part of every token, shown to those who find a lock
	// held. The default is host/pid.
	Owner string
	// TTL is how long a lease lasts unless it is extended; 30 s by default. It
	// is also how long others wait at the most after this process crashed.
	TTL time.Duration
	// StoreTimeout is how long a call goes on trying a store that can't be
	// reached before it returns ErrUnreachable; 5 s by default.
	StoreTimeout time.Duration
	// NoLocalPassing has every release tell the store. Without it a lock that
	// calls of this Locker wait for goes from one to the next in memory, up to
	// 16 times, 64 with package quorum, and 5 ms, before other processes have
	// their turn. Each has a fencing token of its own all the same.
	NoLocalPassing bool
	// Events are told what happens.
	Events Events
}

// Defaults of Config.
const (
	defaultTTL          = 30 * time.Second
	defaultStoreTimeout = 5 * time.Second
	maxOwner            = 200 // bytes
)

func (c Config) withDefaults() Config {
	if c.Owner == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "unknown"
		}
		c.Owner = fmt.Sprintf("%s/%d", host, os.Getpid())
	}
	if c.TTL == 0 {
		c.TTL = defaultTTL
	}
	if c.StoreTimeout == 0 {
		c.StoreTimeout = defaultStoreTimeout
	}
	return c
}

func (c Config) validate() error {
	switch {
	case c.TTL < minTTL:
		return misconfigured("Config.TTL %v is shorter than %v", c.TTL, minTTL)
	case c.StoreTimeout < 0:
		return misconfigured("Config.StoreTimeout %v is negative", c.StoreTimeout)
	case len(c.Owner) > maxOwner:
		return misconfigured("Config.Owner has %d bytes, more than %d", len(c.Owner), maxOwner)
	case strings.ContainsFunc(c.Owner, func(r rune) bool { return unicode.IsControl(r) || unicode.IsSpace(r) }):
		return misconfigured("Config.Owner %q has a space or control character", c.Owner)
	}
	return nil
}

// Locker acquires locks in one store. It is safe for concurrent use; a process
// needs one for each store. Close it, or its goroutine stays.
type Locker struct {
	store  driver.Store
	config Config
	now    clock
	keeper *keeper
	queues *queues
	inbox  *inbox
	leases int // that may be made of one grant

	closing  context.Context // ends when Close begins
	close    context.CancelFunc
	lifetime context.Context // ends when Close has done what it can
	end      context.CancelFunc

	releases   commonLimit
	limits     commonLimit    // for calls that may take the store's timeout
	background sync.WaitGroup // clean-ups of acquires with an unknown outcome
	mu         sync.Mutex     // orders background.Go before background.Wait
	closed     bool
}

// New returns a Locker on a store. It does no I/O. The store stays the caller's:
// close it after the Locker.
func New(store driver.Store, config Config) (*Locker, error) {
	return newLocker(store, config, systemClock())
}

func newLocker(store driver.Store, config Config, now clock) (*Locker, error) {
	if store == nil {
		return nil, misconfigured("the store is nil")
	}
	config = config.withDefaults()
	if err := config.validate(); err != nil {
		return nil, err
	}
	l := &Locker{
		store: store, config: config, now: now,
		leases: cmp.Or(store.Capabilities().Leases, fenceBlock),
	}
	l.releases.limit, l.limits.limit = min(releaseLimit, config.StoreTimeout), config.StoreTimeout
	l.closing, l.close = context.WithCancel(context.Background())
	l.lifetime, l.end = context.WithCancel(context.Background())
	l.keeper = newKeeper(l.lifetime, store, l.now, config.StoreTimeout, &l.config.Events)
	l.queues = newQueues(store)
	l.inbox = newInbox(l)
	return l, nil
}

// TryAcquire asks once for the lock. If another holds it, the error is a
// *HeldError.
func (l *Locker) TryAcquire(ctx context.Context, name string, opts ...AcquireOption) (*Lease, error) {
	return l.Acquire(ctx, name, append(opts[:len(opts):len(opts)], WithMaxWait(0))...)
}

// Acquire waits for the lock until ctx ends or the time of WithMaxWait is over;
// then the error is a *HeldError. Within a process the calls for one name are
// served first come, first served. The lock is not re-entrant: a second Acquire
// waits for the first lease like anybody's.
//
// The lease lasts until it is released or lost, not until ctx ends.
func (l *Locker) Acquire(ctx context.Context, name string, opts ...AcquireOption) (*Lease, error) {
	return l.acquire(ctx, withoutCancel(ctx), name, opts)
}

// Do acquires the lock as Acquire does, calls work, and releases the lock. The
// context given to work ends, with a *LostError as its cause, as soon as the
// lease can't be trusted, and when ctx ends.
//
// Do returns the error of work, joined with the *LostError if the lock was lost
// before work returned: then another may have begun meanwhile. A lock that could
// not be released is no error of the work: see Events.ReleaseFailed.
func (l *Locker) Do(ctx context.Context, name string, work func(ctx context.Context, lease *Lease) error, opts ...AcquireOption) (err error) {
	lease, err := l.acquire(ctx, ctx, name, opts)
	if err != nil {
		return err
	}
	defer func() { // also when work panics
		if lost := lease.Release(ctx); errors.Is(lost, ErrLost) && !errors.Is(err, ErrLost) {
			err = errors.Join(err, lost)
		}
	}()
	return work(lease.Context(), lease)
}

// Resume returns the lease of a token that still holds the name, extended by
// the TTL, so that another process can go on with it or release it. Its fencing
// token is not smaller than that lease's. If the token does not hold the name,
// the error is a *LostError.
func (l *Locker) Resume(ctx context.Context, name, token string, opts ...AcquireOption) (*Lease, error) {
	a, err := l.newAcquisition(withoutCancel(ctx), name, opts)
	if err != nil {
		return nil, err
	}
	a.request.Token = token
	return a.resume(ctx)
}

// Inspect reports who holds the name now. What it says may be outdated when it
// returns.
func (l *Locker) Inspect(ctx context.Context, name string) (state State, err error) {
	if err := driver.CheckName(name); err != nil {
		return State{}, err
	}
	err = l.persist(ctx, l.config.StoreTimeout, func(ctx context.Context) error {
		state, err = l.store.Inspect(ctx, name)
		return err
	})
	return state, err
}

// Store returns the store that was given to New.
func (l *Locker) Store() driver.Store { return l.store }

// Persist calls op, with growing pauses, until it returns something else than an
// ErrUnreachable or the end of a context, for Config.StoreTimeout at the most:
// what all calls do that ask the store. It is for packages that use more of the
// store than locks; op must be such that it does no harm twice.
func (l *Locker) Persist(ctx context.Context, op func(ctx context.Context) error) error {
	if l.closing.Err() != nil {
		return ErrClosed
	}
	return l.persist(ctx, l.config.StoreTimeout, op)
}

// Close releases every lease that is held, whose contexts end with ErrClosed as
// their cause, ends the calls that wait, and waits for the Locker's goroutines.
// If ctx ends first, what is still held stays in the store until its TTL ends.
// The error is that of a release that failed.
func (l *Locker) Close(ctx context.Context) error {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.close()
	defer context.AfterFunc(ctx, l.end)()
	err := l.releaseAll(ctx, l.keeper.close())
	// The clean-ups have a while yet, as a release has.
	defer time.AfterFunc(releaseLimit, l.end).Stop()
	l.background.Wait()
	l.inbox.close()
	l.end()
	l.keeper.work.Wait()
	return err
}

// closers is how many leases Close releases at a time.
const closers = 64

func (l *Locker) releaseAll(ctx context.Context, leases []*Lease) error {
	for _, lease := range leases {
		lease.endContext(ErrClosed)
	}
	errs := make([]error, len(leases))
	slots := make(chan struct{}, closers)
	var releases sync.WaitGroup
	for i, lease := range leases {
		slots <- struct{}{}
		if ctx.Err() != nil {
			errs[i] = ctx.Err()
			break
		}
		releases.Go(func() {
			errs[i] = lease.Release(ctx)
			<-slots
		})
	}
	releases.Wait()
	for _, err := range errs {
		if err != nil {
			return err // one stands for all: a store that fails, fails for many
		}
	}
	return nil
}
