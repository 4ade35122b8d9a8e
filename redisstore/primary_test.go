package redisstore

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfastlock/holdfast/driver"
	"github.com/holdfastlock/holdfast/internal/redistest"
)

// patient is watchedBy with time for the sentinels of a busy machine, and
// nothing that has the client find out by itself.
func patient(s *redistest.Sentinels) rueidis.ClientOption {
	client := watchedBy(s)
	client.Sentinel.Dialer = net.Dialer{Timeout: patience, KeepAlive: time.Minute}
	client.Sentinel.TopologyRefreshInterval = time.Minute
	return client
}

// ears are what a client hears sentinels with.
type ears struct {
	sentinels []string
	mu        sync.Mutex
	open      []*ear
}

type ear struct {
	net.Conn
	closed chan struct{}
	close  func() error
	deaf   chan struct{}
}

func (e *ears) dial(ctx context.Context, address string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil || !slices.Contains(e.sentinels, address) {
		return conn, err
	}
	new := &ear{Conn: conn, closed: make(chan struct{}), deaf: make(chan struct{})}
	new.close = sync.OnceValue(func() error { close(new.closed); return conn.Close() })
	e.mu.Lock()
	defer e.mu.Unlock()
	e.open = append(e.open, new)
	return new, nil
}

// stop has the connections that are open now hear nothing any more.
func (e *ears) stop() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, ear := range e.open {
		close(ear.deaf)
	}
	e.open = nil
}

func (e *ear) Close() error { return e.close() }

func (e *ear) Read(b []byte) (int, error) {
	n, err := e.Conn.Read(b)
	select {
	case <-e.deaf:
		<-e.closed
		return 0, net.ErrClosed
	default:
		return n, err
	}
}

func TestAnOldPrimaryThatComesBackGrantsNothing(t *testing.T) {
	s := redistest.StartSentinels(t, redistest.SentinelOptions{})
	for round := range 3 {
		must(t, s.WaitSettled())
		heard := &ears{sentinels: s.Addrs()}
		client := patient(s)
		client.DialCtxFn = heard.dial
		store := openWith(t, Options{Client: client})
		acquire(t, store, request(fmt.Sprint("before ", round))) // it is connected

		heard.stop() // that another is the primary now is told a second late
		old := s.Primary()
		old.Kill()
		promoted, err := s.WaitFailover(old)
		must(t, err)
		must(t, old.Restart(false))
		req := request(fmt.Sprint("after ", round))
		eventually(t, "it is granted", func() bool {
			result, err := store.Acquire(within(t), req)
			if err != nil {
				wantKind(t, err, driver.ErrUnreachable)
			}
			return err == nil && result.Granted
		})
		if n := number(t, promoted, "EXISTS", "lock:"+req.Name); n != 1 {
			t.Errorf("round %d: the grant is not at the primary", round)
		}
		release(t, store, req, driver.Mine)
	}
}

func TestSentinelsThatAreOfNoHelpLeaveTheStoreToItsPrimary(t *testing.T) {
	s := redistest.StartSentinels(t, redistest.SentinelOptions{DownAfter: time.Minute})
	client := patient(s)
	client.Sentinel.Dialer.Timeout = 2 * time.Second // all may be silent
	store := openWith(t, Options{Client: client})
	acquire(t, store, request("before"))
	primary := s.Primary()
	for _, trouble := range []struct {
		name string
		make func()
	}{
		{"one names another server", func() {
			do(t, s.Sentinels[0], "SENTINEL", "REMOVE", redistest.MasterSet)
			do(t, s.Sentinels[0], "SENTINEL", "MONITOR", redistest.MasterSet, "127.0.0.1", "1", "2")
		}},
		{"one is down", func() { s.Sentinels[1].Kill() }},
		{"the others are silent", func() { s.Sentinels[0].Pause(); s.Sentinels[2].Pause() }},
		{"all are down", func() { s.Sentinels[0].Kill(); s.Sentinels[2].Kill() }},
	} {
		trouble.make()
		do(t, primary, "CLIENT", "KILL", "TYPE", "normal")
		req := request(trouble.name)
		eventually(t, trouble.name+", and the store works", func() bool {
			result, err := store.Acquire(within(t), req)
			return err == nil && result.Granted
		})
		release(t, store, req, driver.Mine)
	}
}

func TestOneServerMayBeNamedInTwoWays(t *testing.T) {
	c := newConnection(Options{})
	defer c.close()
	for _, pair := range []struct {
		one, other string
		differ     bool
	}{
		{"127.0.0.1:6379", "127.0.0.1:6379", false},
		{"127.0.0.1:6379", "127.0.0.1:6380", true},
		{"127.0.0.1:6379", "127.0.0.2:6379", true},
		{"127.0.0.1:6379", "localhost:6379", false},
		{"localhost:6379", "192.0.2.1:6379", true},
		{"127.0.0.1:6379", "[::ffff:127.0.0.1]:6379", false},
		{"redis.invalid:6379", "127.0.0.1:6379", false}, // nobody can tell
		{"redis.invalid:6379", "redis.invalid:6380", true},
	} {
		if got := c.differ(within(t), pair.one, pair.other); got != pair.differ {
			t.Errorf("%s and %s differ: %v", pair.one, pair.other, got)
		}
	}
}
