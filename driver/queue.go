package driver

import (
	"context"
	"time"
)

// Claim is how long a store keeps a name for a waiter to whom it was handed on,
// until the waiter asks again: a waiter that has died in the meantime delays the
// others by no more.
const Claim = 2 * time.Second

// Queuer is implemented by stores that keep those who wait for a name in the
// order in which they came. A name that comes free is handed on to the first of
// them in the same atomic step: a hand-off costs as much with one waiter as with
// a thousand.
//
// A hand-off is told to the inbox of the waiter, and is only a hint: it may be
// lost, late or come twice. Ownership begins with an answer of Enqueue.
type Queuer interface {
	// Enqueue asks for the name as Acquire does. A name that is free is granted
	// to the first in the queue, and to anybody if there is none; otherwise the
	// token takes the last place, unless it has one. A name that is found free
	// while others are before is handed on to them at once: its last holder may
	// have ended without a release.
	//
	// To repeat a request does no harm, and is how a waiter asks whether it is
	// its turn. A place is kept for at least QueueRequest.Keep after the last
	// Enqueue for the name, whoever sent it.
	//
	// The answer is ErrUnsupported for Mode Shared, and where the store has no
	// queue after all, as things are set up: the waiter then polls by Acquire.
	Enqueue(ctx context.Context, req QueueRequest) (QueueResult, error)
	// OpenInbox opens an inbox, in which hand-offs to its waiters arrive. It does
	// not wait for the store: what is handed on to an inbox that does not listen
	// goes to the next waiter.
	OpenInbox(listener Listener) Inbox
}

// QueueRequest asks for a name and a place in its queue.
type QueueRequest struct {
	AcquireRequest
	// Inbox is the address of the waiter's inbox, which this store has opened.
	Inbox string
	// Keep is how long the place must be kept at the least.
	Keep time.Duration
	// Previous, if not empty, is a token of the same caller which is released
	// first, in the same step, as by Release without a tombstone. If it holds
	// the name and nobody else waits, the name goes to Token.
	Previous string
}

// QueueResult is the answer to a QueueRequest.
type QueueResult struct {
	AcquireResult
	// Before is how many waiters are before this one. Only without a grant.
	// The name may be free all the same, for a moment: a store may now and then
	// give lockers that have no queue a chance, and tells the first waiter.
	Before int
	// Previous is what became of QueueRequest.Previous; 0 without one. It is
	// Gone or Taken also if an earlier request of the same kind, not answered,
	// has released it. It is set beside an error too if the store released it
	// and took the grant of Token back.
	Previous Answer
}

// HandOff says that a name was handed on to a token.
type HandOff struct {
	Name  string
	Token string
}

// Listener is told what arrives in an inbox. Its functions are called one at a
// time, on any goroutine, also within a call of the store and before OpenInbox
// returns. They must return soon, and call neither the store nor Close.
type Listener struct {
	// Handed is told of a hand-off. With an empty token any of the inbox's
	// waiters for the name may be meant.
	Handed func(HandOff)
	// Restored is called when the inbox has begun to listen, at first and after
	// every interruption: hand-offs may have been missed before.
	Restored func()
}

// Inbox is where hand-offs arrive.
type Inbox interface {
	// Address is what a QueueRequest and ReleaseRequest name it by.
	Address() string
	// Close ends it. It returns when the listener is not called any more.
	Close()
}
