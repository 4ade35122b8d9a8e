package driver

import (
	"context"
	"iter"
	"time"
)

// ForeignLister is implemented by stores that share their server with other
// programs' locks.
type ForeignLister interface {
	// ListForeign yields the keys of the whole server that look like locks,
	// whoever made them, in no particular order. The pattern is one of Lister,
	// for the whole key; without * and ? it is a key, or a name of this store,
	// that is looked up directly. It changes nothing. After an error the sequence
	// ends.
	ListForeign(ctx context.Context, pattern string) iter.Seq2[ForeignLock, error]
}

// ForeignLock is a key that looks like a lock. What it is, is a guess.
type ForeignLock struct {
	// Key is the key as it is at the server.
	Key string
	// Library is whose lock it looks like, or empty.
	Library string
	// Kind is what it looks like: lock, read lock, write lock or semaphore.
	Kind string
	// Basis is what the guess is based on, for people.
	Basis string
	// Holder is what can be shown of the holder; never a whole token.
	Holder string
	// Left is how long the server will keep the key; negative without an expiry.
	Left time.Duration
}

type progressKey struct{}

// WithProgress returns a context under which a long listing tells about how many
// keys of how many it has looked at, on the goroutine of the listing. The second
// is 0 where it is not known.
func WithProgress(ctx context.Context, tell func(looked, of int64)) context.Context {
	return context.WithValue(ctx, progressKey{}, tell)
}

// Progress returns the function given to WithProgress, or nil.
func Progress(ctx context.Context) func(looked, of int64) {
	tell, _ := ctx.Value(progressKey{}).(func(looked, of int64))
	return tell
}
