package holdfast

import (
	"sync"
	"time"

	"github.com/holdfastlock/holdfast/driver"
)

// inbox is where the store says that it handed a name on to a call of this
// Locker, if the store keeps queues. It is opened by the first call that waits.
type inbox struct {
	locker *Locker
	queuer driver.Queuer // nil if the store has none
	open   sync.Once

	mu     sync.Mutex
	box    driver.Inbox
	live   bool // it has begun to listen
	closed bool
	// expected has the tokens of this Locker to which a name may be handed on:
	// of calls that wait, with what wakes them, and of tenures that came of it.
	expected map[string]expectation
}

type expectation struct {
	name string
	wake chan<- struct{} // nil: it holds the name already
}

func newInbox(l *Locker) *inbox {
	queuer, _ := l.store.(driver.Queuer)
	return &inbox{locker: l, queuer: queuer, expected: make(map[string]expectation)}
}

// expect announces a token, before the store can hear of it, and says whether
// the store keeps a queue.
func (b *inbox) expect(name, token string, wake chan<- struct{}) bool {
	if b.queuer == nil {
		return false
	}
	b.open.Do(func() {
		box := b.queuer.OpenInbox(driver.Listener{Handed: b.handed, Restored: b.restored})
		b.mu.Lock()
		b.box = box
		b.mu.Unlock()
	})
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return false
	}
	b.expected[token] = expectation{name: name, wake: wake}
	return true
}

// holds notes that the token, if it was expected, holds its name.
func (b *inbox) holds(token string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e, known := b.expected[token]; known {
		b.expected[token] = expectation{name: e.name}
	}
}

// forget notes that nobody wants anything for the token any more.
func (b *inbox) forget(token string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.expected, token)
}

// address returns where hand-offs arrive; empty before the first call waited.
func (b *inbox) address() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.box == nil {
		return ""
	}
	return b.box.Address()
}

// listens says whether hand-offs arrive.
func (b *inbox) listens() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.live
}

// disable notes that the store keeps no queue after all.
func (b *inbox) disable() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed, b.live = true, false
}

// unfit says that the inbox is closed or disabled.
func (b *inbox) unfit() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.closed
}

// handed wakes the call that the name was handed on to. A token that nobody here
// knows belongs to a call that has gone: what it was given goes on at once.
func (b *inbox) handed(h driver.HandOff) {
	b.mu.Lock()
	e, known := b.expected[h.Token]
	if h.Token == "" {
		b.wakeAll(h.Name)
	}
	b.mu.Unlock()
	switch {
	case known && e.wake != nil:
		hint(e.wake)
	case !known && h.Token != "" && b.locker.closing.Err() == nil:
		b.locker.withdraw(driver.ReleaseRequest{Name: h.Name, Token: h.Token}, driver.Claim)
	}
}

// restored wakes every call: what was handed on to it before may have been
// missed, and it may have lost its place.
func (b *inbox) restored() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.live = !b.closed // one that begins to listen after it was disabled tells nothing
	b.wakeAll("")
}

// wakeAll wakes the calls that wait for the name, or for any. Locked by mu.
func (b *inbox) wakeAll(name string) {
	for _, e := range b.expected {
		if e.wake != nil && (name == "" || e.name == name) {
			hint(e.wake)
		}
	}
}

func (b *inbox) close() {
	b.mu.Lock()
	b.closed = true
	box := b.box
	b.mu.Unlock()
	if box != nil {
		box.Close()
	}
}

// relay is the end of a tenure, told to the store by the call that waits behind
// it: release and enqueue in one step.
type relay struct {
	token string        // of the tenure
	done  chan struct{} // closed when the call has an answer, or gives up
	// What follows is read when done is closed.
	answer driver.Answer // 0 without an answer
	lost   bool          // an earlier request was sent and not answered
}

// heard notes the store's answer.
func (r *relay) heard(answer driver.Answer) {
	r.answer = answer
	close(r.done)
}

// wait returns the answer, or 0 if there is none within the limit, and whether
// an earlier request may have been carried out.
func (r *relay) wait(limit time.Duration) (answer driver.Answer, lost bool) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-r.done:
		return r.answer, r.lost
	case <-timer.C:
		return 0, true
	}
}
