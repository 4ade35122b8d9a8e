package redisstore

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/redis/rueidis"
)

var errClosed = errors.New("the store is closed")

// connection makes the client on first use and runs the calls to it.
type connection struct {
	option rueidis.ClientOption
	warn   func(text string)
	life   context.Context // ends with close
	end    context.CancelFunc

	// ready is the client while calls may use it directly: one that is
	// connected to its server. Nil before, and after a connection was lost.
	ready atomic.Pointer[rueidis.Client]

	mu      sync.Mutex
	closed  bool
	client  rueidis.Client // nil until connected
	pending *attempt       // not nil while connecting
	losses  int            // how many connections have ended so far
	calls   sync.WaitGroup // counted under mu, and only while open
}

// attempt is one try to connect, shared by all who wait for it.
type attempt struct {
	done   chan struct{}
	client rueidis.Client
	err    error
}

func newConnection(option rueidis.ClientOption, warn func(string)) *connection {
	c := &connection{option: option, warn: warn}
	c.option.DialCtxFn = c.watched(dialFunc(option))
	c.life, c.end = context.WithCancel(context.Background())
	return c
}

// ask runs fn with the client and waits for its end or that of the context.
func ask[T any](ctx context.Context, c *connection, fn func(context.Context, rueidis.Client) (T, error)) (T, error) {
	var value T
	err := ctx.Err()
	if err == nil {
		if client := c.ready.Load(); client != nil {
			value, err = fn(ctx, *client)
		} else {
			value, err = askConnecting(ctx, c, fn)
		}
	}
	return value, c.failure(ctx, err)
}

// askApart is ask for what must come to its end also if the context ends before:
// it is a call of its own.
func askApart[T any](ctx context.Context, c *connection, fn func(context.Context, rueidis.Client) (T, error)) (T, error) {
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
func askConnecting[T any](ctx context.Context, c *connection, fn func(context.Context, rueidis.Client) (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	results := make(chan result, 1)
	started := c.start(func() {
		var r result
		client, err := c.connected()
		switch {
		case err != nil:
			r.err = err
		case ctx.Err() != nil: // nobody waits: send nothing
			r.err = ctx.Err()
		default:
			r.value, r.err = fn(context.WithoutCancel(ctx), client)
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
// connection yet to the node of the next call, so all calls come this way.
func (c *connection) connected() (rueidis.Client, error) {
	if client := c.ready.Load(); client != nil {
		return *client, nil
	}
	losses := c.lossesSoFar()
	client, err := c.connect()
	if err != nil || client.Mode() == rueidis.ClientModeCluster {
		return client, err
	}
	err = client.Do(context.Background(), client.B().Ping().Build()).NonRedisError()
	if err == nil {
		c.gotThrough(client, losses)
	}
	return client, err
}

// connect returns the client. If there is none yet it waits for the attempt
// that is under way, or makes one.
func (c *connection) connect() (rueidis.Client, error) {
	c.mu.Lock()
	if c.client != nil {
		defer c.mu.Unlock()
		return c.client, nil
	}
	if a := c.pending; a != nil {
		c.mu.Unlock()
		<-a.done
		return a.client, a.err
	}
	a := &attempt{done: make(chan struct{})}
	c.pending = a
	c.mu.Unlock()

	a.client, a.err = c.dial()

	c.mu.Lock()
	defer c.mu.Unlock()
	c.client, c.pending = a.client, nil
	close(a.done)
	return a.client, a.err
}

func (c *connection) dial() (rueidis.Client, error) {
	client, err := rueidis.NewClient(c.option)
	if err != nil {
		if client != nil { // with some options it returns both
			client.Close()
		}
		return nil, err
	}
	if c.warn != nil {
		warnOfEviction(client, c.warn)
	}
	return client, nil
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
	c.client = nil
}
