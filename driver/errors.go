package driver

import (
	"context"
	"errors"
	"fmt"
	"net"
)

// The kinds of failure. A store returns them in an *Error; match with
// errors.Is.
var (
	// ErrUnreachable means that the store could not be asked, did not answer,
	// or can't serve yet; asking again later may help.
	ErrUnreachable = errors.New("store unreachable")
	// ErrRefused means that the store answered and refuses: a wrong password, a
	// missing permission, a read-only replica, no memory left. Nothing was done.
	ErrRefused = errors.New("refused by the store")
	// ErrMisconfigured means that the request can't work as things are set up:
	// an address that makes no sense, a key of that name that is not a lock.
	// Nothing was done.
	ErrMisconfigured = errors.New("misconfigured")
	// ErrUnsupported means that this kind of store can't do what was asked.
	// Nothing was done.
	ErrUnsupported = errors.New("not supported by this store")
	// ErrWithdrawn means that the token was tombstoned: its caller has gone.
	// Nothing was done.
	ErrWithdrawn = errors.New("acquire was withdrawn")
)

// Error is a failure of a store.
type Error struct {
	// Kind is one of ErrUnreachable, ErrRefused, ErrMisconfigured,
	// ErrUnsupported.
	Kind error
	// Hint says in a few words what to do about it; may be empty.
	Hint string
	// Err is what the store or its client said; may be nil.
	Err error
}

// Error returns the kind, the cause and the hint in one line.
func (e *Error) Error() string {
	text := e.Kind.Error()
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	if e.Hint != "" {
		text += " (" + e.Hint + ")"
	}
	return text
}

// Unwrap returns the kind and the cause.
func (e *Error) Unwrap() []error {
	if e.Err == nil {
		return []error{e.Kind}
	}
	return []error{e.Kind, e.Err}
}

// Unknown says whether a request that failed with err may nevertheless have
// been carried out, or still be on its way. A connection that could not be made
// carried nothing.
func Unknown(err error) bool {
	if err == nil {
		return false
	}
	for _, known := range []error{ErrRefused, ErrMisconfigured, ErrUnsupported, ErrWithdrawn} {
		if errors.Is(err, known) {
			return false
		}
	}
	var name *NameError
	var network *net.OpError
	unsent := errors.As(err, &network) && network.Op == "dial"
	return !unsent && !errors.As(err, &name)
}

// NoAnswer wraps err, a failure to get an answer: as the context's own error if
// the context has ended, else as ErrUnreachable.
func NoAnswer(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("no answer from the store: %w", ctx.Err())
	}
	return &Error{Kind: ErrUnreachable, Err: withoutContext(err)}
}

// withoutContext hides the time limits of a client library, which are contexts
// too: it must not look as if the caller's had ended. That a dial failed stays
// visible to Unknown.
func withoutContext(err error) error {
	if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
		return err
	}
	if network, is := errors.AsType[*net.OpError](err); is {
		plain := *network
		plain.Err = errors.New(network.Err.Error())
		return &plain
	}
	return errors.New("the client gave up: " + err.Error())
}
