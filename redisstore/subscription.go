package redisstore

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfastlock/holdfast/driver"
)

const (
	// resubscribeFirst and resubscribeMost bound the pause, with jitter, before
	// a broken subscription is made again.
	resubscribeFirst = 20 * time.Millisecond
	resubscribeMost  = 2 * time.Second
	// unsubscribeWithin bounds how long Close waits for a server that does not
	// answer. The request stays on its way.
	unsubscribeWithin = 100 * time.Millisecond
)

// subscription is a channel that one goroutine keeps subscribed, over the
// connection that the commands use.
type subscription struct {
	store   *Store
	channel string
	sharded bool   // in the channel's slot of a cluster
	begun   func() // it listens, at first and after each interruption
	ended   func() // it does not any more, or could not
	heard   func(message rueidis.PubSubMessage)
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
	client, err := ask(ctx, s.store.connection, func(_ context.Context, client rueidis.Client) (rueidis.Client, error) {
		return client, nil // Receive runs until ctx ends
	})
	if err != nil {
		return false
	}
	if client.Mode() == rueidis.ClientModeCluster && !s.sharded {
		s.begun() // each name will have a channel of its own
		<-ctx.Done()
		return true
	}
	var subscribed atomic.Bool
	ctx, moved := context.WithCancel(ctx)
	defer moved()
	// The client may subscribe again by itself, and does not say which messages
	// were lost meanwhile.
	hooked := rueidis.WithOnSubscriptionHook(ctx, func(now rueidis.PubSubSubscription) {
		switch now.Kind {
		case "subscribe", "ssubscribe":
			subscribed.Store(true)
			s.store.inboxes.refused.Store(false)
			s.begun()
		case "sunsubscribe": // by the server: the slot goes to another node
			moved()
		}
	})
	hooked = rueidis.WithOnReceiveReturnHook(hooked, func(err error, same rueidis.CommandClient) error {
		// Receive itself does not unsubscribe.
		brief, cancel := context.WithTimeout(context.Background(), unsubscribeWithin)
		defer cancel()
		same.Do(brief, s.unsubscribe(same))
		return err
	})
	err = client.Receive(hooked, s.subscribe(client), s.heard)
	if errors.Is(s.store.connection.failure(ctx, err), driver.ErrRefused) {
		s.store.inboxes.refused.Store(true)
	}
	return subscribed.Load()
}

func (s subscription) subscribe(client rueidis.Client) rueidis.Completed {
	if s.sharded {
		return client.B().Ssubscribe().Channel(s.channel).Build()
	}
	return client.B().Subscribe().Channel(s.channel).Build()
}

func (s subscription) unsubscribe(client rueidis.CommandClient) rueidis.Completed {
	if s.sharded {
		return client.B().Sunsubscribe().Channel(s.channel).Build()
	}
	return client.B().Unsubscribe().Channel(s.channel).Build()
}
