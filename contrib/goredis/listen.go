package goredis

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// pingEvery is how often a subscription is asked whether it lives, as the
	// client itself does where it reads the messages. One that has not answered by
	// the next time is lost.
	pingEvery = 3 * time.Second
	// unsubscribeWithin bounds how long the end of a subscription waits for a
	// server that does not answer.
	unsubscribeWithin = 100 * time.Millisecond
)

// errSilent is why a subscription ends that does not answer.
var errSilent = errors.New("the subscription does not answer")

// listener makes subscriptions: a client.
type listener interface {
	Subscribe(ctx context.Context, channels ...string) *redis.PubSub
}

// subscription is one to a channel, on a connection of its own.
type subscription struct {
	*redis.PubSub
	channel string
	sharded bool
	heard   atomic.Bool   // something came since it was asked last
	over    chan struct{} // closed when nothing is received any more
}

// never is a context that has ended. With it the client can't make a broken
// connection again, which it would do without a word: a break ends Listen.
var never = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// Listen implements redisstore.Conn. Each call has a connection of its own.
func (c conn) Listen(ctx context.Context, channel string, sharded bool, joined func(), heard func(string)) error {
	s := &subscription{
		PubSub: c.Subscribe(ctx), channel: channel, sharded: sharded, over: make(chan struct{}),
	}
	defer s.Close()
	if err := s.subscribe(ctx); err != nil {
		return c.failure(err)
	}
	var watching sync.WaitGroup
	var lost error
	watching.Go(func() { lost = s.watch(ctx) })
	err := s.receive(joined, heard)
	close(s.over)
	watching.Wait()
	if lost != nil {
		err = lost
	}
	return c.failure(err)
}

func (s *subscription) subscribe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if s.sharded {
		return s.SSubscribe(ctx, s.channel)
	}
	return s.PubSub.Subscribe(ctx, s.channel)
}

func (s *subscription) unsubscribe() error {
	if s.sharded {
		return s.SUnsubscribe(never, s.channel)
	}
	return s.Unsubscribe(never, s.channel)
}

// receive passes on what comes, until the connection breaks or the subscription
// has been ended, by us or by the server.
func (s *subscription) receive(joined func(), heard func(string)) error {
	for {
		received, err := s.Receive(never)
		if err != nil {
			return err
		}
		s.heard.Store(true)
		switch received := received.(type) {
		case *redis.Message:
			heard(received.Payload)
		case *redis.Subscription:
			switch received.Kind {
			case "subscribe", "ssubscribe":
				joined()
			default: // of a slot that goes to another node, if it was not us
				return nil
			}
		}
	}
}

// watch ends the subscription when ctx ends or nothing comes any more, and
// returns when it has ended.
func (s *subscription) watch(ctx context.Context) error {
	ticks := time.NewTicker(pingEvery)
	defer ticks.Stop()
	for {
		select {
		case <-s.over:
			return nil
		case <-ctx.Done():
			if s.unsubscribe() == nil {
				select {
				case <-s.over:
				case <-time.After(unsubscribeWithin):
				}
			}
			return s.Close()
		case <-ticks.C:
			if !s.heard.Swap(false) {
				_ = s.Close()
				return errSilent
			}
			_ = s.Ping(never) // if it fails nothing will come
		}
	}
}
