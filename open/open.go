// Package open opens a store by its URL, for programs that are told by a flag
// or the environment where their locks live. It imports every kind of store;
// a program that knows its store is smaller without it.
package open

import (
	"context"
	"fmt"
	"io"

	"github.com/holdfastlock/holdfast/driver"
	"github.com/holdfastlock/holdfast/pgstore"
	"github.com/holdfastlock/holdfast/redisstore"
	"github.com/holdfastlock/holdfast/sqlitestore"
)

// Local is the short name, used in place of a URL, of the embedded store at its
// default place.
const Local = "local"

// Options are what a URL does not say.
type Options struct {
	// Warn is called with one line for a store that works but is not fit for
	// locks as it is set up, such as a server that may evict keys. It may be
	// nil, and may be called from any goroutine.
	Warn func(string)
}

// Store opens the store that the URL names. The caller closes the Closer when
// no locker uses the store any more. A URL that makes no sense is an error that
// matches driver.ErrMisconfigured, in one line without any part of the URL that
// might be a password.
func Store(ctx context.Context, url string, opts Options) (driver.Store, io.Closer, error) {
	where, err := parse(url)
	if err != nil {
		return nil, nil, err
	}
	switch {
	case where.quorum != nil:
		return openQuorum(where, opts)
	case where.redis != nil:
		return openRedis(where.redis[0], opts)
	case where.postgres != "":
		return openPostgres(where.postgres)
	default:
		return openFile(ctx, where.path)
	}
}

func openRedis(options redisstore.Options, opts Options) (driver.Store, io.Closer, error) {
	options.Warn = opts.Warn
	store, err := redisstore.New(options)
	if err != nil {
		return nil, nil, err
	}
	return store, closer(store.Close), nil
}

func openPostgres(url string) (driver.Store, io.Closer, error) {
	store, err := pgstore.Open(url, pgstore.Config{})
	if err != nil {
		return nil, nil, err
	}
	return store, closer(store.Close), nil
}

func openFile(ctx context.Context, path string) (driver.Store, io.Closer, error) {
	if path == "" {
		var err error
		if path, err = sqlitestore.DefaultPath(); err != nil {
			return nil, nil, err
		}
	}
	store, err := sqlitestore.Open(ctx, path)
	if err != nil {
		return nil, nil, err
	}
	return store, store, nil
}

// closer makes an io.Closer of a Close that can't fail.
type closer func()

func (c closer) Close() error {
	c()
	return nil
}

// Place says in words for people where the store of a URL is: the file's path
// for an embedded one, since root and other users have different ones, else the
// URL without its password.
func Place(url string) string {
	where, err := parse(url)
	if err != nil || where.redis != nil || where.postgres != "" {
		return Redact(url)
	}
	if where.path != "" {
		return where.path
	}
	path, err := sqlitestore.DefaultPath()
	if err != nil {
		return Local
	}
	return path
}

func bad(format string, args ...any) error {
	return &driver.Error{
		Kind: driver.ErrMisconfigured,
		Err:  fmt.Errorf("store URL: %s", onOneLine(fmt.Sprintf(format, args...))),
	}
}
