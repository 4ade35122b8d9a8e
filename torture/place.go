package main

import (
	"context"
	"crypto/tls"
	"io"
	"net"

	"github.com/holdfastlock/holdfast/driver"
	"github.com/holdfastlock/holdfast/open"
	"github.com/holdfastlock/holdfast/redisstore"
	"github.com/holdfastlock/holdfast/torture/worker"
)

// openStore opens the store of the settings. Servers that tell clients of one
// another are reached by the worker's own networks.
func openStore(ctx context.Context, settings worker.Settings) (driver.Store, io.Closer, error) {
	if len(settings.Networks) == 0 {
		return open.Store(ctx, settings.Store, open.Options{})
	}
	options, err := open.RedisOptions(settings.Store)
	if err != nil {
		return nil, nil, err
	}
	one := options[0]
	one.Client.DialCtxFn = func(ctx context.Context, address string, dialer *net.Dialer, _ *tls.Config) (net.Conn, error) {
		return dialer.DialContext(ctx, "tcp", settings.Networks[address])
	}
	store, err := redisstore.New(one)
	if err != nil {
		return nil, nil, err
	}
	return store, closer(store.Close), nil
}

// closer makes an io.Closer of a Close that can't fail.
type closer func()

// Close implements io.Closer.
func (c closer) Close() error {
	c()
	return nil
}
