package redisstore

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/holdfastlock/holdfast/driver"
)

const (
	// resubscribeFirst and resubscribeMost bound the pause, with jitter, before
	// a broken subscription is made again.
	resubscribeFirst = 20 * time.Millisecond
	resubscribeMost  = 2 * time.Second
)

// subscription is a channel that one goroutine keeps subscribed, over the
// connection that the commands use.
type subscription struct {
	store   *Store
	channel string
	sharded bool   // in the channel's slot of a cluster
	begun   func() // it listens, at first and after each interruption
	ended   func() // it does not any more, or could not
	heard   func(message string)
}

// keep keeps the channel subscribed until ctx ends.
func (s subscription) keep(ctx context.Context) {
	for pause := resubscribeFirst; ctx.Err() == nil; pause = min(2*pause, resubscribeMost) {
		if s.once(ctx) {
			pause = resubscribeFirst
		}
		s.ended()
		select {
		case <-ctx.Done():
		case <-time.After(pause/2 + rand.N(pause/2)):
		}
	}
}

// once subscribes and passes the messages on until the connection breaks or ctx
// ends. It says whether the subscription was made.
func (s subscription) once(ctx context.Context) (made bool) {
	conn, err := ask(ctx, s.store.connection, func(_ context.Context, conn Conn) (Conn, error) {
		return conn, nil // Listen runs until ctx ends
	})
	if err != nil {
		return false
	}
	if conn.Cluster() && !s.sharded {
		s.begun() // each name will have a channel of its own
		<-ctx.Done()
		return true
	}
	var subscribed atomic.Bool
	err = conn.Listen(ctx, s.channel, s.sharded, func() {
		subscribed.Store(true)
		s.store.inboxes.refused.Store(false)
		s.begun()
	}, s.heard)
	if errors.Is(s.store.connection.failure(ctx, err), driver.ErrRefused) {
		s.store.inboxes.refused.Store(true)
		s.store.warnOnce(&s.store.inboxes.warned, "Redis does not let us subscribe to the channels of a queue: who waits polls")
	}
	return subscribed.Load()
}
