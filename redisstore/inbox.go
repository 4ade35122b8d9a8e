package redisstore

import (
	"context"
	"crypto/rand"
	"errors"
	mathrand "math/rand/v2"
	"strings"
	"sync"
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

// inboxes are those of one store.
type inboxes struct {
	refused atomic.Bool // the server does not let us subscribe

	mu     sync.Mutex
	closed bool
	open   map[*inbox]struct{}
}

// inbox is a channel that one goroutine keeps subscribed, over the connection
// that the commands use.
type inbox struct {
	store    *Store
	channel  string
	cancel   context.CancelFunc
	ended    chan struct{} // closed when its goroutine ends
	listener driver.Listener
	calls    sync.Mutex // held while the listener is called
}

// OpenInbox implements driver.Queuer.
func (s *Store) OpenInbox(listener driver.Listener) driver.Inbox {
	ctx, cancel := context.WithCancel(context.Background())
	box := &inbox{
		store: s, channel: s.prefix + inboxMark + rand.Text(),
		cancel: cancel, ended: make(chan struct{}), listener: listener,
	}
	all := &s.inboxes
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.closed {
		close(box.ended)
		return box
	}
	if all.open == nil {
		all.open = make(map[*inbox]struct{})
	}
	all.open[box] = struct{}{}
	go func() {
		defer close(box.ended)
		box.receive(ctx)
	}()
	return box
}

// Address implements driver.Inbox: the name of the channel.
func (b *inbox) Address() string { return b.channel }

// Close implements driver.Inbox.
func (b *inbox) Close() {
	b.cancel()
	<-b.ended
	all := &b.store.inboxes
	all.mu.Lock()
	defer all.mu.Unlock()
	delete(all.open, b)
}

// close ends all inboxes and waits for them.
func (all *inboxes) close() {
	all.mu.Lock()
	all.closed = true
	open := all.open
	all.open = nil
	all.mu.Unlock()
	for box := range open {
		box.cancel()
		<-box.ended
	}
}

// receive keeps the channel subscribed until ctx ends.
func (b *inbox) receive(ctx context.Context) {
	for pause := resubscribeFirst; ctx.Err() == nil; pause = min(2*pause, resubscribeMost) {
		if b.receiveOnce(ctx) {
			pause = resubscribeFirst
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause/2 + mathrand.N(pause/2)):
		}
	}
}

// receiveOnce subscribes and passes the messages on until the connection breaks
// or ctx ends. It says whether the subscription was made.
func (b *inbox) receiveOnce(ctx context.Context) (made bool) {
	client, err := ask(ctx, b.store.connection, func(_ context.Context, client rueidis.Client) (rueidis.Client, error) {
		return client, nil // Receive runs until ctx ends
	})
	if err != nil {
		return false
	}
	var subscribed atomic.Bool
	// The client may subscribe again by itself, and does not say which messages
	// were lost meanwhile.
	hooked := rueidis.WithOnSubscriptionHook(ctx, func(now rueidis.PubSubSubscription) {
		if now.Kind == "subscribe" {
			subscribed.Store(true)
			b.restored()
		}
	})
	hooked = rueidis.WithOnReceiveReturnHook(hooked, func(err error, same rueidis.CommandClient) error {
		// Receive itself does not unsubscribe.
		brief, cancel := context.WithTimeout(context.Background(), unsubscribeWithin)
		defer cancel()
		same.Do(brief, same.B().Unsubscribe().Channel(b.channel).Build())
		return err
	})
	err = client.Receive(hooked, client.B().Subscribe().Channel(b.channel).Build(), b.received)
	if errors.Is(b.store.connection.failure(ctx, err), driver.ErrRefused) {
		b.store.inboxes.refused.Store(true)
	}
	return subscribed.Load()
}

func (b *inbox) restored() {
	b.store.inboxes.refused.Store(false)
	b.calls.Lock()
	defer b.calls.Unlock()
	b.listener.Restored()
}

// received reads what the script handon sends: the key of the name, and the
// token.
func (b *inbox) received(message rueidis.PubSubMessage) {
	lock, token, _ := strings.Cut(message.Message, "\n")
	b.calls.Lock()
	defer b.calls.Unlock()
	b.listener.Handed(driver.HandOff{Name: strings.TrimPrefix(lock, b.store.prefix), Token: token})
}
