package holdfast

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfastlock/holdfast/driver"
)

// tombstone is how long the store refuses a token whose acquire was taken back:
// longer than a request can linger on its way.
const tombstone = 20 * time.Second

// acquisition is one call that wants a lock. It has one token, whatever the
// number of requests: a request whose answer was lost is recognised by it.
type acquisition struct {
	locker   *Locker
	parent   context.Context // of the lease's context
	settings settings
	request  driver.AcquireRequest
	began    instant
	// unheard says that a request was sent and not answered: it may have been
	// carried out, or may be yet.
	unheard bool
	// queued says that the token may have a place in the store's queue.
	queued bool
	before int    // how many were before it there
	relay  *relay // the release that goes along with the next request
	place  place  // in the queue of this process
	// replicas is how many are known to have the grant.
	replicas int
}

func (l *Locker) newAcquisition(parent context.Context, name string, opts []AcquireOption) (*acquisition, error) {
	a := &acquisition{
		locker: l, parent: parent, began: l.now(),
		settings: settings{ttl: l.config.TTL, maxWait: -1, keepAlive: true, fence: true},
	}
	for _, opt := range opts {
		opt(&a.settings)
	}
	if err := a.settings.validate(); err != nil {
		return nil, err
	}
	if err := driver.CheckName(name); err != nil {
		return nil, err
	}
	if l.closing.Err() != nil {
		return nil, ErrClosed
	}
	a.request = a.settings.request(name)
	if !l.config.NoLocalPassing && a.settings.passable() {
		a.request.Fences = l.leases
	}
	return a, nil
}

func (l *Locker) acquire(ctx, parent context.Context, name string, opts []AcquireOption) (*Lease, error) {
	a, err := l.newAcquisition(parent, name, opts)
	if err != nil {
		return nil, err
	}
	lease, err := a.run(ctx)
	if lease == nil {
		a.withdraw()
	}
	return lease, err
}

// run asks once, or waits for its turn.
func (a *acquisition) run(ctx context.Context) (*Lease, error) {
	switch {
	case ctx.Err() != nil:
		return nil, a.gaveUp(ctx, Holder{})
	case a.settings.maxWait == 0:
		return a.ask(ctx, a.locker.config.StoreTimeout)
	default:
		return a.inTurn(ctx)
	}
}

// ask asks the store until it answers, for limit at the most. The answer is a
// lease or a *HeldError.
func (a *acquisition) ask(ctx context.Context, limit time.Duration) (*Lease, error) {
	a.identify()
	var sent, heard instant
	var result driver.AcquireResult
	err := a.locker.persist(ctx, limit, func(ctx context.Context) (err error) {
		if useful := trusted(a.settings.ttl); useful < limit {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, useful)
			defer cancel()
		}
		sent = a.locker.now()
		result, err = a.send(ctx)
		heard = a.locker.now()
		if err == nil && result.Granted && a.window(sent).left(heard) <= 0 {
			err = errTooLate
		}
		a.unheard = a.unheard || driver.Unknown(err)
		return err
	})
	switch {
	case err != nil && a.locker.closing.Err() != nil:
		return nil, ErrClosed
	case err != nil:
		return nil, err
	case !result.Granted:
		return nil, a.heldBy(result.State)
	}
	a.replicas = result.Replicas
	return a.grant(sent, heard, result.Fence)
}

// identify makes the token, which only a call that asks the store needs.
func (a *acquisition) identify() {
	if a.request.Token == "" {
		a.request.Token = driver.NewToken(a.locker.config.Owner)
	}
}

// send asks the store for the name, and, for a call that waits, for a place in
// its queue.
func (a *acquisition) send(ctx context.Context) (driver.AcquireResult, error) {
	if a.queued && !a.locker.inbox.unfit() {
		result, err := a.enqueue(ctx)
		if !errors.Is(err, driver.ErrUnsupported) {
			return result, err
		}
		a.giveUpRelay()
		a.locker.inbox.disable()
	}
	return a.locker.store.Acquire(ctx, a.request)
}

func (a *acquisition) enqueue(ctx context.Context) (driver.AcquireResult, error) {
	b := a.locker.inbox
	request := driver.QueueRequest{AcquireRequest: a.request, Keep: 2 * longestPoll}
	request.Inbox = b.address()
	if a.relay != nil {
		request.Previous = a.relay.token
	}
	result, err := b.queuer.Enqueue(ctx, request)
	switch {
	case a.relay == nil:
	case err == nil, result.Previous != 0:
		a.relay.heard(result.Previous)
		a.relay = nil
	case driver.Unknown(err):
		a.relay.lost = true
	}
	a.before = result.Before
	return result.AcquireResult, err
}

// errTooLate is the outcome of a grant whose window was over when it was heard
// of. The name may be ours in the store; the same token finds out.
var errTooLate = &driver.Error{Kind: ErrUnreachable, Err: errors.New("the answer came after the lease had ended")}

func (a *acquisition) window(sent instant) window { return newWindow(sent, a.settings.ttl) }

// grant makes the tenure of a request that was sent at sent and whose grant was
// heard of at heard, and its first lease.
func (a *acquisition) grant(sent, heard instant, fence int64) (*Lease, error) {
	t := &tenure{
		locker: a.locker, name: a.request.Name, token: a.request.Token, settings: a.settings,
		granted: sent, replicas: a.replicas, doubtful: a.unheard, index: -1, spare: a.request.Fences - 1,
	}
	t.window = t.limited(a.window(sent))
	lease := a.leaseOf(t, fence, sent)
	deadline := t.window.deadline() // before the keeper shares the tenure
	if !a.locker.keeper.add(t, heard) {
		a.unheard = true // it is in the store, and nobody will release it
		return nil, ErrClosed
	}
	a.locker.queues.took(t)
	if a.queued {
		a.locker.inbox.holds(t.token)
	}
	a.emitAcquired(lease, deadline, heard)
	return lease, nil
}

func (a *acquisition) emitAcquired(lease *Lease, deadline time.Time, now instant) {
	emit(a.locker.config.Events.Acquired, Event{
		Name: a.request.Name, Fence: lease.fence, Deadline: deadline, Took: now.since(a.began),
	})
}

// resume takes over the lease of the request's token.
func (a *acquisition) resume(ctx context.Context) (*Lease, error) {
	l := a.locker
	var sent instant
	var state State
	err := l.persist(ctx, l.config.StoreTimeout, func(ctx context.Context) (err error) {
		sent = l.now()
		extend := []driver.ExtendRequest{{Name: a.request.Name, Token: a.request.Token, TTL: a.request.TTL}}
		result := l.store.Extend(ctx, extend)[0]
		if result.Err != nil {
			return result.Err
		}
		if result.Answer != driver.Mine {
			return &LostError{Name: a.request.Name, Reason: reasonOf(result.Answer)}
		}
		if state, err = l.store.Inspect(ctx, a.request.Name); err == nil && a.window(sent).left(l.now()) <= 0 {
			err = errTooLate
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, holder := range state.Holders {
		if holder.Token == a.request.Token {
			// Another process may have held it with a smaller token of the block.
			a.request.Fences = 0
			lease, err := a.grant(sent, l.now(), holder.Fence)
			a.unheard = false // closed: the lease stays its token's
			return lease, err
		}
	}
	return nil, &LostError{Name: a.request.Name, Reason: LostGone}
}

// withdraw takes back what a call that has no lease may have left at the store: a
// place in the queue, and a request that may have been or may be carried out
// although nobody waits for it any more.
func (a *acquisition) withdraw() {
	l := a.locker
	request := driver.ReleaseRequest{Name: a.request.Name, Token: a.request.Token}
	if a.queued {
		l.inbox.forget(request.Token)
		request.Inbox = l.inbox.address()
	}
	if a.unheard {
		request.Tombstone = tombstone
	}
	if a.queued || a.unheard {
		l.withdraw(request, max(a.request.TTL, tombstone))
	}
}

// withdraw releases in the background, unless the Locker is closed, and goes on
// trying for limit: then a store that stays out of reach frees the name itself.
func (l *Locker) withdraw(request driver.ReleaseRequest, limit time.Duration) {
	l.mu.Lock()
	closed := l.closed
	if !closed {
		l.background.Go(func() { l.takeBack(l.lifetime, limit, request) })
	}
	l.mu.Unlock()
	if closed {
		l.takeBack(context.Background(), min(limit, releaseLimit), request)
	}
}

func (l *Locker) takeBack(ctx context.Context, limit time.Duration, request driver.ReleaseRequest) {
	_ = l.persist(ctx, limit, func(ctx context.Context) error {
		_, err := l.store.Release(ctx, request)
		return err
	})
	l.queues.wake(request.Name)
}

func (a *acquisition) waited() time.Duration { return a.locker.now().since(a.began) }

// heldBy returns the error for a name that another holds.
func (a *acquisition) heldBy(state State) *HeldError {
	held := &HeldError{Name: a.request.Name, Waited: a.waited()}
	if len(state.Holders) > 0 {
		held.Holder = state.Holders[0]
	}
	return held
}

// gaveUp returns the error of a call whose context ended while it waited.
func (a *acquisition) gaveUp(ctx context.Context, holder Holder) error {
	switch err := ctx.Err(); {
	case a.locker.closing.Err() != nil:
		return ErrClosed
	case errors.Is(err, context.DeadlineExceeded) && holder.Token != "":
		return &HeldError{Name: a.request.Name, Holder: holder, Waited: a.waited(), Err: err}
	default:
		return fmt.Errorf("acquiring lock %q: %w", a.request.Name, err)
	}
}
