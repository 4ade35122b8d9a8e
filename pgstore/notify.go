package pgstore

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// listenAgainFirst and listenAgainMost bound the pause, with jitter, before
	// a broken connection is made again.
	listenAgainFirst = 20 * time.Millisecond
	listenAgainMost  = 2 * time.Second
	// poolerPause is the pause where a pooler is in the way, which will stay.
	poolerPause = time.Minute
	// silence is how long nothing may be heard before the connection is tried.
	silence = 10 * time.Second
	// replyLimit is how long the server may take for something small.
	replyLimit = 5 * time.Second
)

// listener keeps one connection that listens, from the first subscription on.
type listener struct {
	config func(context.Context) (*pgx.ConnConfig, error)

	mu          sync.Mutex
	subscribers map[string]map[chan struct{}]struct{} // by name
	live        bool                                  // notifications come
	closed      bool
	cancel      context.CancelFunc // nil until the goroutine is started
	ended       chan struct{}      // closed when it ends
}

func newListener(config func(context.Context) (*pgx.ConnConfig, error)) *listener {
	return &listener{config: config, subscribers: make(map[string]map[chan struct{}]struct{})}
}

// Subscribe implements driver.Notifier, by LISTEN on one connection for the whole
// store, which is made with the first subscription and kept until Close. A
// release sends a NOTIFY on the channel "holdfast", with the name.
//
// Through a pooler such as PgBouncer LISTEN would be lost, or worse, stay with a
// connection that others use, so it is not tried: nothing is sent, and waiters
// ask the store now and then. Config.ListenURL cures that.
func (s *Store) Subscribe(name string) (<-chan struct{}, func()) {
	l := s.listener
	wake := make(chan struct{}, 1)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.start()
	if l.subscribers[name] == nil {
		l.subscribers[name] = make(map[chan struct{}]struct{})
	}
	l.subscribers[name][wake] = struct{}{}
	if l.live {
		hint(wake)
	}
	return wake, func() { l.stop(name, wake) }
}

func (l *listener) stop(name string, wake chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.subscribers[name], wake)
	if len(l.subscribers[name]) == 0 {
		delete(l.subscribers, name)
	}
}

// start starts the goroutine, once. Locked by mu.
func (l *listener) start() {
	if l.cancel != nil || l.closed {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	l.cancel, l.ended = cancel, make(chan struct{})
	go func() {
		defer close(l.ended)
		l.run(ctx)
	}()
}

func (l *listener) close() {
	l.mu.Lock()
	l.closed = true
	cancel := l.cancel
	l.mu.Unlock()
	if cancel != nil {
		cancel()
		<-l.ended
	}
}

// run keeps the connection until ctx ends.
func (l *listener) run(ctx context.Context) {
	for pause := listenAgainFirst; ctx.Err() == nil; pause = min(2*pause, listenAgainMost) {
		made, err := l.listen(ctx)
		if made {
			pause = listenAgainFirst
		}
		wait := pause/2 + rand.N(pause/2)
		if errors.Is(err, errPooler) {
			wait = poolerPause
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
}

var errPooler = errors.New("a pooler is between this program and the server")

// listen wakes those who are told of until the connection breaks or ctx ends. It
// says whether the server listened.
func (l *listener) listen(ctx context.Context) (made bool, err error) {
	conn, err := l.connect(ctx)
	if err != nil {
		return false, err
	}
	defer disconnect(conn)
	if err := ask(ctx, conn, "LISTEN holdfast"); err != nil {
		return false, err
	}
	l.setLive(true)
	defer l.setLive(false)
	for {
		if err := l.next(ctx, conn); err != nil {
			return true, err
		}
	}
}

// connect makes a connection to the server itself.
func (l *listener) connect(ctx context.Context) (*pgx.Conn, error) {
	config, err := l.config(ctx)
	if err != nil {
		return nil, err
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	direct, err := isDirect(ctx, conn)
	if err == nil && !direct {
		err = errPooler
	}
	if err != nil {
		disconnect(conn)
		return nil, err
	}
	return conn, nil
}

// next waits for one notification. When none comes for long it makes sure that
// the server is still there.
func (l *listener) next(ctx context.Context, conn *pgx.Conn) error {
	quiet, cancel := context.WithTimeout(ctx, silence)
	defer cancel()
	told, err := conn.WaitForNotification(quiet)
	switch {
	case err == nil:
		l.wake(told.Payload)
		return nil
	case quiet.Err() != nil && ctx.Err() == nil:
		return ask(ctx, conn, "SELECT")
	default:
		return err
	}
}

func ask(ctx context.Context, conn *pgx.Conn, sql string) error {
	limited, cancel := context.WithTimeout(ctx, replyLimit)
	defer cancel()
	_, err := conn.Exec(limited, sql)
	return err
}

// disconnect says goodbye if the server listens, and waits for the connection's
// goroutines.
func disconnect(conn *pgx.Conn) {
	brief, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = conn.Close(brief) // it ends in any case
	select {
	case <-conn.PgConn().CleanupDone():
	case <-brief.Done():
	}
}

// setLive wakes all, since a release may have been missed before.
func (l *listener) setLive(live bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.live = live
	if !live {
		return
	}
	for _, subscribers := range l.subscribers {
		wakeAll(subscribers)
	}
}

func (l *listener) wake(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	wakeAll(l.subscribers[name])
}

func wakeAll(subscribers map[chan struct{}]struct{}) {
	for wake := range subscribers {
		hint(wake)
	}
}

// hint leaves a value in the channel, unless one is there that was not read.
func hint(wake chan<- struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}
