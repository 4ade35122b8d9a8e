package redisstore

import (
	"context"
	"crypto/tls"
	"net"
	"sync"

	"github.com/redis/rueidis"
)

type dialer = func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error)

// dialFunc returns the user's way to make a connection, or the usual one.
func dialFunc(option rueidis.ClientOption) dialer {
	if option.DialCtxFn != nil {
		return option.DialCtxFn
	}
	return func(ctx context.Context, address string, d *net.Dialer, secure *tls.Config) (net.Conn, error) {
		if secure != nil {
			return (&tls.Dialer{NetDialer: d, Config: secure}).DialContext(ctx, "tcp", address)
		}
		return d.DialContext(ctx, "tcp", address)
	}
}

// watched makes connections that tell when they end. The client itself closes a
// connection as soon as it sees it broken, and only then dials again.
func (c *connection) watched(dial dialer) dialer {
	return func(ctx context.Context, address string, d *net.Dialer, secure *tls.Config) (net.Conn, error) {
		conn, err := dial(ctx, address, d, secure)
		if err != nil {
			return nil, err
		}
		return &watchedConn{Conn: conn, lost: sync.OnceFunc(c.lost)}, nil
	}
}

type watchedConn struct {
	net.Conn
	lost func()
}

func (w *watchedConn) Close() error {
	w.lost()
	return w.Conn.Close()
}

// lost notes that a connection has ended: until a call has got through again,
// calls may have to connect.
func (c *connection) lost() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.losses++
	c.ready.Store(nil)
}

func (c *connection) lossesSoFar() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.losses
}

// gotThrough notes that a call was answered, and that calls may use the client
// directly, unless a connection has ended meanwhile.
func (c *connection) gotThrough(conn Conn, losses int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed && c.losses == losses {
		c.ready.Store(&conn)
	}
}
