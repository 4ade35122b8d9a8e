package redisstore

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redis/rueidis"
	"golang.org/x/sync/singleflight"
)

var errClosed = errors.New("the store is closed")

// connection makes the client on first use, unless it is given, and runs the
// calls to it.
type connection struct {
	option    rueidis.ClientOption
	cluster   bool // and nothing else
	given     Conn // the caller's, in place of option
	warn      func(text string)
	unwatched dialer             // makes a connection whose end is not noted
	checks    singleflight.Group // of checkPrimary
	life      context.Context    // ends with close
	end       context.CancelFunc

	// ready is the client while calls may use it directly: one that is
	// connected to its server. Nil before, and after a connection was lost; and
	// always for one that is given, of which nothing is known.
	ready atomic.Pointer[Conn]

	mu      sync.Mutex
	closed  bool
	conn    Conn           // nil until connected
	client  rueidis.Client // behind conn; nil if that is given
	pending *attempt       // not nil while connecting
	losses  int            // how many connections have ended so far
	open    map[*watchedConn]bool
	left    time.Time      // when leave was last heeded
	calls   sync.WaitGroup // counted under mu, and only while open
}

// attempt is one try to connect, shared by all who wait for it.
type attempt struct {
	done   chan struct{}
	conn   Conn
	client rueidis.Client
	err    error
}

func newConnection(options Options) *connection {
	c := &connection{option: withDefaults(options.Client), cluster: options.Cluster, given: options.Conn, warn: options.Warn, open: make(map[*watchedConn]bool)}
	c.unwatched = dialFunc(c.option)
	c.option.DialCtxFn = c.watched(c.unwatched)
	c.life, c.end = context.WithCancel(context.Background())
	return c
}

// ask runs fn with the client and waits for its end or that of the context.
func ask[T any](ctx context.Context, c *connection, fn func(context.Context, Conn) (T, error)) (T, error) {
	var value T
	err := ctx.Err()
	if err == nil {
		if conn := c.ready.Load(); conn != nil {
			value, err = fn(ctx, *conn)
		} else {
			value, err = askConnecting(ctx, c, fn)
		}
	}
	return value, c.failure(ctx, err)
}

// askApart is ask for what must come to its end also if the context ends before:
// it is a call of its own.
func askApart[T any](ctx context.Context, c *connection, fn func(context.Context, Conn) (T, error)) (T, error) {
	var value T
	err := ctx.Err()
	if err == nil {
		value, err = askConnecting(ctx, c, fn)
	}
	return value, c.failure(ctx, err)
}

// askConnecting is ask while there may be no connection. The call to the client
// then runs on a goroutine of its own, under a context that does not end: the
// client dials on behalf of whichever call comes first and fails all others
// together with that one, and while it dials it does not look at the others'
// contexts. The call ends by itself if the server can't be reached.
func askConnecting[T any](ctx context.Context, c *connection, fn func(context.Context, Conn) (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	results := make(chan result, 1)
	started := c.start(func() {
		var r result
		conn, err := c.connected()
		switch {
		case err != nil:
			r.err = err
		case ctx.Err() != nil: // nobody waits: send nothing
			r.err = ctx.Err()
		default:
			r.value, r.err = fn(context.WithoutCancel(ctx), conn)
		}
		results <- r
	})
	var none T
	if !started {
		return none, errClosed
	}
	select {
	case r := <-results:
		return r.value, r.err
	case <-ctx.Done():
		return none, ctx.Err()
	}
}

// start runs fn on a goroutine that close waits for, unless closed.
func (c *connection) start(fn func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.calls.Go(fn)
	}
	return !c.closed
}

// connected returns the client after it has got an answer from its server, so
// that the calls that follow need not connect. In a cluster there may be no
// connection yet to the node of the next call, so all calls come this way, as
// they do with a client that is given.
func (c *connection) connected() (Conn, error) {
	if conn := c.ready.Load(); conn != nil {
		return *conn, nil
	}
	losses := c.lossesSoFar()
	conn, err := c.connect()
	if err != nil || c.given != nil || conn.Cluster() {
		return conn, err
	}
	err = ping(conn)
	if ended(err) { // the client had not seen that yet, and connects now
		err = ping(conn)
	}
	if err == nil {
		err = c.checkPrimary(losses)
	}
	if err == nil {
		c.gotThrough(conn, losses)
	}
	return conn, err
}

// ping returns an error unless the server has said something.
func ping(conn Conn) error {
	err := conn.Do(context.Background(), command(0, "PING")).Err
	if _, yes := said(err); yes {
		return nil
	}
	return err
}

// ended says that an error is the end of a connection that there was.
func ended(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// connect returns the client. If there is none yet it waits for the attempt
// that is under way, or makes one.
func (c *connection) connect() (Conn, error) {
	c.mu.Lock()
	if c.conn != nil {
		defer c.mu.Unlock()
		return c.conn, nil
	}
	if a := c.pending; a != nil {
		c.mu.Unlock()
		<-a.done
		return a.conn, a.err
	}
	a := &attempt{done: make(chan struct{}), conn: c.given}
	c.pending = a
	c.mu.Unlock()

	if c.given == nil {
		a.conn, a.client, a.err = c.dial()
	}
	if a.err == nil && c.warn != nil {
		warnOfEviction(a.conn, c.warn)
	}

	c.mu.Lock()
	defer c.mu.Unlock()
	c.conn, c.client, c.pending = a.conn, a.client, nil
	close(a.done)
	return a.conn, a.err
}

func (c *connection) dial() (Conn, rueidis.Client, error) {
	client, err := rueidis.NewClient(c.option)
	if err == nil && c.cluster && client.Mode() != rueidis.ClientModeCluster {
		err = noCluster // the client makes do with one server
	}
	if err != nil {
		if client != nil { // with some options it returns both
			client.Close()
		}
		return nil, nil, c.unconnected(clean(err))
	}
	return Rueidis(client), client, nil
}

// close waits for the calls under way, which fail when the client is closed.
func (c *connection) close() {
	c.mu.Lock()
	c.closed = true
	c.ready.Store(nil)
	client := c.client
	c.mu.Unlock()
	c.end()
	if client != nil {
		client.Close()
	}
	c.calls.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.client != nil && client == nil { // connected meanwhile
		c.client.Close()
	}
	c.client, c.conn = nil, nil
}
