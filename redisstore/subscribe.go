package redisstore

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/redis/rueidis"
)

const (
	// resubscribeFirst and resubscribeMost bound the pause, with jitter, before
	// a broken subscription is made again.
	resubscribeFirst = 20 * time.Millisecond
	resubscribeMost  = 2 * time.Second
	// unsubscribeWithin bounds how long stop waits for a server that does not
	// answer. The request stays on its way.
	unsubscribeWithin = 100 * time.Millisecond
)

// subscriptions are those of one store, one for each name waited for.
type subscriptions struct {
	mu     sync.Mutex
	closed bool
	topics map[string]*topic // by channel
}

// topic is the subscription of one channel, shared by its waiters.
type topic struct {
	cancel context.CancelFunc
	ended  chan struct{} // closed when its goroutine ends

	mu      sync.Mutex
	active  bool
	waiters map[chan struct{}]struct{}
}

// Subscribe implements driver.Notifier. Waiters of one name share one goroutine
// and one subscription, over the connection that the commands use.
func (s *Store) Subscribe(name string) (wake <-chan struct{}, stop func()) {
	waiter := make(chan struct{}, 1)
	k, err := keysOf(s.prefix, name)
	if err != nil { // such a name is never acquired, nor released
		return waiter, func() {}
	}
	t := s.join(k.channel, waiter)
	return waiter, func() { s.leave(k.channel, t, waiter) }
}

func (s *Store) join(channel string, waiter chan struct{}) *topic {
	subs := &s.subscriptions
	subs.mu.Lock()
	defer subs.mu.Unlock()
	t := subs.topics[channel]
	if t == nil || !t.add(waiter) {
		t = s.newTopic(channel, t)
		t.add(waiter)
	}
	return t
}

// newTopic starts a subscription, after the one before on the same channel has
// ended: its unsubscribing would end this one. Locked by subs.mu.
func (s *Store) newTopic(channel string, before *topic) *topic {
	ctx, cancel := context.WithCancel(context.Background())
	t := &topic{cancel: cancel, ended: make(chan struct{}), waiters: make(map[chan struct{}]struct{})}
	subs := &s.subscriptions
	if subs.closed {
		close(t.ended)
		return t
	}
	if subs.topics == nil {
		subs.topics = make(map[string]*topic)
	}
	subs.topics[channel] = t
	go func() {
		defer close(t.ended)
		if before != nil {
			<-before.ended
		}
		s.receive(ctx, channel, t)
	}()
	return t
}

// leave takes the waiter out, and with the last one ends the subscription.
func (s *Store) leave(channel string, t *topic, waiter chan struct{}) {
	if !t.remove(waiter) {
		return
	}
	t.cancel()
	<-t.ended
	subs := &s.subscriptions
	subs.mu.Lock()
	defer subs.mu.Unlock()
	if subs.topics[channel] == t { // no successor has come
		delete(subs.topics, channel)
	}
}

// close ends all subscriptions and waits for them.
func (subs *subscriptions) close() {
	subs.mu.Lock()
	subs.closed = true
	topics := subs.topics
	subs.topics = nil
	subs.mu.Unlock()
	for _, t := range topics {
		t.cancel()
		<-t.ended
	}
}

// receive keeps the channel subscribed until ctx ends.
func (s *Store) receive(ctx context.Context, channel string, t *topic) {
	for pause := resubscribeFirst; ctx.Err() == nil; pause = min(2*pause, resubscribeMost) {
		if s.receiveOnce(ctx, channel, t) {
			pause = resubscribeFirst
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause/2 + rand.N(pause/2)):
		}
	}
}

// receiveOnce subscribes and passes the messages on until the connection breaks
// or ctx ends. It says whether the subscription was made.
func (s *Store) receiveOnce(ctx context.Context, channel string, t *topic) bool {
	client, err := ask(ctx, s.connection, func(_ context.Context, client rueidis.Client) (rueidis.Client, error) {
		return client, nil // Receive runs until ctx ends
	})
	if err != nil {
		return false
	}
	hooked := rueidis.WithOnSubscriptionHook(ctx, func(now rueidis.PubSubSubscription) {
		if now.Kind == "subscribe" {
			t.activate()
		}
	})
	hooked = rueidis.WithOnReceiveReturnHook(hooked, func(err error, same rueidis.CommandClient) error {
		// Receive itself does not unsubscribe.
		brief, cancel := context.WithTimeout(context.Background(), unsubscribeWithin)
		defer cancel()
		same.Do(brief, same.B().Unsubscribe().Channel(channel).Build())
		return err
	})
	subscribe := client.B().Subscribe().Channel(channel).Build()
	// Why it ended does not matter: it is made again.
	_ = client.Receive(hooked, subscribe, func(rueidis.PubSubMessage) { t.wake() })
	return t.deactivate()
}

// add says whether the topic takes the waiter: not if its last one has left.
// What was released before the waiter came would be missed, hence the value.
func (t *topic) add(waiter chan struct{}) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.waiters == nil {
		return false
	}
	t.waiters[waiter] = struct{}{}
	if t.active {
		hint(waiter)
	}
	return true
}

// remove says whether the waiter was there and the last one.
func (t *topic) remove(waiter chan struct{}) (last bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, there := t.waiters[waiter]; !there {
		return false
	}
	delete(t.waiters, waiter)
	if len(t.waiters) > 0 {
		return false
	}
	t.waiters = nil
	return true
}

// activate wakes everybody: a release may have been missed until now.
func (t *topic) activate() {
	t.mu.Lock()
	t.active = true
	t.mu.Unlock()
	t.wake()
}

// deactivate says whether the topic was active.
func (t *topic) deactivate() (was bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	was, t.active = t.active, false
	return was
}

func (t *topic) wake() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for waiter := range t.waiters {
		hint(waiter)
	}
}

// hint leaves a value in the channel, unless one is there that was not read.
func hint(waiter chan struct{}) {
	select {
	case waiter <- struct{}{}:
	default:
	}
}
