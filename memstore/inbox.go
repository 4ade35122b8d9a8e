package memstore

import (
	"strconv"
	"sync"

	"github.com/holdfastlock/holdfast/driver"
)

// inbox is a driver.Inbox of a Store.
type inbox struct {
	store    *Store
	address  string
	cut      bool // of the store's mutex: what is handed on does not reach it
	listener driver.Listener

	mu     sync.Mutex // held while the listener is called
	closed bool
}

// message is on its way to an inbox.
type message struct {
	to      *inbox
	handOff driver.HandOff
}

// OpenInbox implements driver.Queuer. The inbox listens at once.
func (s *Store) OpenInbox(listener driver.Listener) driver.Inbox {
	s.mu.Lock()
	s.opened++
	box := &inbox{store: s, address: "inbox " + strconv.Itoa(s.opened), listener: listener}
	s.inboxes[box.address] = box
	s.mu.Unlock()
	box.call(listener.Restored)
	return box
}

// CutInboxes makes the inboxes that are open now deaf, as a broken connection
// does: waiters lose their turn. Restore ends that and tells the listeners so.
func (s *Store) CutInboxes() (restore func()) {
	cut := s.setCut(true)
	return func() {
		s.setCut(false)
		for _, box := range cut {
			box.call(box.listener.Restored)
		}
	}
}

func (s *Store) setCut(cut bool) (boxes []*inbox) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, box := range s.inboxes {
		if box.cut != cut {
			box.cut = cut
			boxes = append(boxes, box)
		}
	}
	return boxes
}

// deliver tells the listeners, unless a fault loses the message. The caller
// does not hold the mutex: a listener must be free to wait for its own.
func (s *Store) deliver(messages []message) {
	for _, m := range messages {
		if s.nextFault("handoff") == (Fault{}) {
			m.to.call(func() { m.to.listener.Handed(m.handOff) })
		}
	}
}

// call calls the listener unless the inbox is closed.
func (b *inbox) call(tell func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed {
		tell()
	}
}

// Address implements driver.Inbox.
func (b *inbox) Address() string { return b.address }

// Close implements driver.Inbox.
func (b *inbox) Close() {
	b.store.mu.Lock()
	delete(b.store.inboxes, b.address)
	b.store.mu.Unlock()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
}
