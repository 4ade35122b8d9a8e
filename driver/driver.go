// Package driver is the contract between holdfast's locker and a store, the
// place where locks live.
//
// A store answers four questions about names (acquire, extend, release,
// inspect), each in one atomic step, and compares time only by its own clock.
// It does not retry, wait, renew or log: the locker does that, once, for all
// stores. Package drivertest is the suite that every store passes.
//
// All methods may be called by many goroutines at once. Each honours its
// context: when the context ends, the method returns promptly, whatever became
// of the request, with an error that matches the context's. Other failures are
// an *Error of one of the kinds below, or a *NameError.
package driver

import (
	"context"
	"iter"
	"time"
)

// Store keeps locks. Implementations are safe for concurrent use and do not
// keep or change the slices they are given.
type Store interface {
	// Acquire grants the name to the token if it is free, in one atomic step,
	// and says who holds it if it is not.
	//
	// It is idempotent by token: if the token already holds the name, the
	// answer is granted, with the same fence, and the key again lasts at least
	// the full TTL. A token that was tombstoned (see ReleaseRequest) is answered
	// with ErrWithdrawn and changes nothing.
	//
	// After an error for which Unknown is true the request may have been, or
	// may still be, carried out.
	Acquire(ctx context.Context, req AcquireRequest) (AcquireResult, error)

	// Extend makes each lease last at least its TTL from now, if its token
	// still holds its name. It never shortens a lease, so that a request that
	// arrives late can do no harm. The results are in the order of the
	// requests, one each; a request that failed says so in its own result.
	Extend(ctx context.Context, reqs []ExtendRequest) []ExtendResult

	// Release frees the name if the token holds it, compared and done in one
	// atomic step, and answers what it found. Only the answer Mine means that
	// something was freed. Released again, the answer is Gone or Taken.
	Release(ctx context.Context, req ReleaseRequest) (Answer, error)

	// Inspect reports who holds the name, without changing anything. A name
	// that nobody ever held is free.
	Inspect(ctx context.Context, name string) (State, error)

	// Capabilities says what this store can do and promises. It does no I/O.
	Capabilities() Capabilities
}

// Notifier is implemented by stores that can say when a name may have become
// free, so that a waiter need not poll often.
type Notifier interface {
	// Subscribe returns at once a channel that receives a value when the name
	// may have become free: after each release, and also each time the
	// subscription becomes active, at first and after every interruption, since
	// a release may have been missed before. Values are hints and are merged
	// when they are not read. A store that can't subscribe keeps trying and
	// sends nothing. The caller calls stop when it no longer waits; stop
	// returns when the subscription holds no more resources for this caller.
	Subscribe(name string) (wake <-chan struct{}, stop func())
}

// Lister is implemented by stores that can list the names that are held.
type Lister interface {
	// List yields the state of every held name that matches the pattern, in
	// no particular order. In a pattern * stands for any text and ? for any
	// one character; everything else stands for itself. A name that changes
	// hands meanwhile may be missing or appear twice. After an error the
	// sequence ends.
	List(ctx context.Context, pattern string) iter.Seq2[State, error]
}

// Mode says how a name is held.
type Mode int

const (
	// Exclusive is for one holder at a time.
	Exclusive Mode = iota
	// Shared is for at most AcquireRequest.Limit holders at a time, and no
	// exclusive one.
	Shared
)

// AcquireRequest asks for a name.
type AcquireRequest struct {
	// Name is the lock; see CheckName.
	Name string
	// Token is unique to this acquisition: at least 128 random bits, then '@'
	// and the owner, so that a person can read who it is.
	Token string
	// TTL is how long the store keeps the name for the token, by the store's
	// clock, from the moment of the grant. Stores with a coarser clock round
	// up: the holder must stop before the store lets another in.
	TTL time.Duration
	// Mode is Exclusive or, where Capabilities.Shared, Shared.
	Mode Mode
	// Limit is the number of shared holders allowed at once; at least 1 in
	// Shared mode, otherwise 0.
	Limit int
	// Purpose is a short text for people who find the name held; may be empty.
	Purpose string
	// NoFence asks for a grant without a fencing token, where that is cheaper.
	NoFence bool
	// Fences is how many fencing tokens in a row the grant reserves, for a
	// locker that passes it on without asking the store; 0 means 1. A repeated
	// request asks for as many.
	Fences int
}

// First returns the first of the fencing tokens that the grant reserved, of
// which last is the last.
func (req AcquireRequest) First(last int64) int64 { return last - req.more() }

// Last returns the last of the fencing tokens that a grant reserves whose first
// is first.
func (req AcquireRequest) Last(first int64) int64 { return first + req.more() }

func (req AcquireRequest) more() int64 { return int64(max(req.Fences, 1) - 1) }

// AcquireResult is the answer to an AcquireRequest.
type AcquireResult struct {
	// Granted says that the token holds the name now.
	Granted bool
	// Fence is the fencing token of the grant, the first of those reserved:
	// larger than all those of every earlier grant of the name. Zero without a
	// grant, or with NoFence.
	Fence int64
	// Replicas is how many replicas are known to have the grant, where the store
	// is configured to wait for some; else 0.
	Replicas int
	// State is what stood in the way. Only set when Granted is false.
	State State
}

// ExtendRequest asks to keep one lease.
type ExtendRequest struct {
	Name  string
	Token string
	// TTL is how long the lease must last from now, at the least.
	TTL time.Duration
}

// ExtendResult is the answer to an ExtendRequest.
type ExtendResult struct {
	// Answer is Mine when the lease was extended. Meaningless with Err.
	Answer Answer
	// Why is what the store knows of how the name came to be Gone, for people;
	// may be nil.
	Why error
	// Err says why there is no answer; the lease may or may not have been
	// extended.
	Err error
}

// ReleaseRequest asks to free a name.
type ReleaseRequest struct {
	Name  string
	Token string
	// Tombstone, when not zero, makes the store refuse the token for this long
	// from now: an acquire of a caller that has gone away, still on its way,
	// must not take the name when it arrives.
	Tombstone time.Duration
	// Inbox is the address under which the token may have a place in the name's
	// queue, which it gives up; see Queuer. May be empty.
	Inbox string
}

// Answer is what a store found when it compared a token.
type Answer int

const (
	// Mine means that the token held the name, and the request was carried out.
	Mine Answer = iota + 1
	// Gone means that nobody holds the name: it expired, was released, or the
	// store lost it.
	Gone
	// Taken means that another token holds the name.
	Taken
)

// String returns the word for the answer.
func (a Answer) String() string {
	switch a {
	case Mine:
		return "mine"
	case Gone:
		return "gone"
	case Taken:
		return "taken"
	default:
		return "no answer"
	}
}

// State is what a store knows of a name at one moment.
type State struct {
	Name string
	// Holders is empty when the name is free, and has one element when it is
	// held exclusively.
	Holders []Holder
	// Fence is the last fencing token granted for the name, or reserved by a
	// grant, or 0 when the store no longer knows.
	Fence int64
}

// Holder is one holding of a name.
type Holder struct {
	// Token is the holder's token. It proves ownership: show Owner instead.
	Token string
	// Fence is the fencing token of the grant, the last of those reserved, or 0
	// when it has none or it is not known, as with locks of other programs.
	Fence int64
	// Age is how long ago the grant was made, by the store's clock; 0 when
	// unknown.
	Age time.Duration
	// Left is how long the store will keep the name for the holder if nothing
	// extends it; negative when it would be kept for ever, as with locks of
	// other programs that have no expiry.
	Left time.Duration
	// Purpose is the text given when it was acquired.
	Purpose string
	Mode    Mode
}

// Owner returns the readable part of the holder's token, what follows the '@',
// or a short beginning of a token that has none.
func (h Holder) Owner() string { return tokenOwner(h.Token) }

// Foreign says that the holder's token was not made by holdfast, so that
// nothing will be notified when it is released.
func (h Holder) Foreign() bool { return !ownToken(h.Token) }

// Capabilities says what a store can do and what it promises beyond the
// contract of Store.
type Capabilities struct {
	// Shared says that Mode Shared is understood. Otherwise such a request is
	// answered with ErrUnsupported.
	Shared bool
	// FenceSurvivesRestart says that fences grow across a restart of the store
	// that kept its data.
	FenceSurvivesRestart bool
	// FenceSurvivesWipe says that fences grow even if all data is lost, as long
	// as the store's clock has not gone back past the last grant.
	FenceSurvivesWipe bool
	// Leases is how many leases a locker should make of one grant, one after
	// another inside its process, before others have their turn; 0 means the
	// locker's own number. It is for stores whose grant takes much longer than that.
	Leases int
}
