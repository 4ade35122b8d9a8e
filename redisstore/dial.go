package redisstore

import (
	"context"
	"crypto/tls"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

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
			return dialTLS(ctx, address, d, secure)
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
		w := &watchedConn{Conn: conn, secure: secure != nil}
		w.lost = sync.OnceFunc(func() { c.lost(w) })
		c.mu.Lock()
		defer c.mu.Unlock()
		c.open[w] = true
		return w, nil
	}
}

type watchedConn struct {
	net.Conn
	lost   func()
	secure bool        // by TLS
	heard  atomic.Bool // the server has said something
}

func (w *watchedConn) Close() error {
	w.lost()
	return w.Conn.Close()
}

// lost notes that a connection has ended: until a call has got through again,
// calls may have to connect.
func (c *connection) lost(w *watchedConn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.open, w)
	c.losses++
	c.ready.Store(nil)
}

// leaveEvery is how soon the servers may be left again: an address that is a
// replica's for good can be asked often.
const leaveEvery = time.Second

// leave has the client find its servers anew, by closing its connections. A
// primary that has become a replica keeps them, and would refuse for as long as
// it is asked, while the address, or a sentinel, names another by now.
func (c *connection) leave() {
	c.mu.Lock()
	var open []*watchedConn
	if now := time.Now(); now.Sub(c.left) >= leaveEvery {
		c.left = now
		open = slices.Collect(maps.Keys(c.open))
	}
	c.mu.Unlock()
	for _, w := range open {
		_ = w.Close()
	}
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
