package redisstore

import (
	"context"
	"crypto/rand"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfastlock/holdfast/driver"
)

// inboxes are those of one store.
type inboxes struct {
	refused atomic.Bool // the server does not let us subscribe
	warned  sync.Once   // of that

	mu     sync.Mutex
	closed bool
	open   map[string]*inbox // by address
}

// inbox is a channel, for all names that are waited for by way of it; or, in a
// cluster, one for each of these names.
type inbox struct {
	store   *Store
	channel string
	ctx     context.Context // ends its subscriptions
	cancel  context.CancelFunc
	running sync.WaitGroup

	calls    sync.Mutex // held while the listener is called
	listener driver.Listener

	mu     sync.Mutex
	shards map[string]*shard // by channel
}

// shard is the channel for one name, in the hash slot of the name: in a cluster a
// script can tell only that node who is listening that it runs on itself.
type shard struct {
	cancel context.CancelFunc
	idle   *time.Timer   // ends it
	ready  chan struct{} // closed when it listens, or could not at first
}

// subscribeWithin bounds how long a request for a place waits until the channel
// is listened to: a hand-off before that would pass its waiter over.
const subscribeWithin = 500 * time.Millisecond

// OpenInbox implements driver.Queuer.
func (s *Store) OpenInbox(listener driver.Listener) driver.Inbox {
	box := &inbox{
		store: s, channel: s.prefix + inboxMark + rand.Text(),
		listener: listener, shards: make(map[string]*shard),
	}
	box.ctx, box.cancel = context.WithCancel(context.Background())
	all := &s.inboxes
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.closed {
		box.cancel()
		return box
	}
	if all.open == nil {
		all.open = make(map[string]*inbox)
	}
	all.open[box.channel] = box
	whole := subscription{store: s, channel: box.channel, begun: box.restored, ended: func() {}, heard: box.received}
	box.running.Go(func() { whole.keep(box.ctx) })
	return box
}

// Address implements driver.Inbox: the name of the channel.
func (b *inbox) Address() string { return b.channel }

// Close implements driver.Inbox.
func (b *inbox) Close() {
	b.end()
	all := &b.store.inboxes
	all.mu.Lock()
	defer all.mu.Unlock()
	delete(all.open, b.channel)
}

// end ends the subscriptions and waits for that.
func (b *inbox) end() {
	b.cancel()
	b.mu.Lock()
	for _, part := range b.shards {
		part.idle.Stop()
	}
	b.mu.Unlock()
	b.running.Wait()
}

// close ends all inboxes and waits for them.
func (all *inboxes) close() {
	all.mu.Lock()
	all.closed = true
	open := all.open
	all.open = nil
	all.mu.Unlock()
	for _, box := range open {
		box.end()
	}
}

// shardOf returns the channel for one name in the place of the inbox of that
// address. The scripts know such a channel by the queue's key before it.
func shardOf(k keys, address string) string {
	return k.queue() + ":" + strings.TrimPrefix(address, k.prefix+inboxMark)
}

// shard returns the channel for the name of a request, and has the inbox listen
// to it until twice the time that its place is kept has gone without another. It
// returns when it does so.
func (all *inboxes) shard(k keys, req driver.QueueRequest) string {
	channel := shardOf(k, req.Inbox)
	all.mu.Lock()
	box := all.open[req.Inbox]
	all.mu.Unlock()
	if box == nil {
		return channel
	}
	select {
	case <-box.listenTo(channel, req.Name, 2*req.Keep):
	case <-time.After(subscribeWithin):
	}
	return channel
}

// listenTo keeps the channel of one name subscribed for d, and longer if it is
// called again.
func (b *inbox) listenTo(channel, name string, d time.Duration) (ready <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if part := b.shards[channel]; part != nil {
		part.idle.Reset(d)
		return part.ready
	}
	ctx, cancel := context.WithCancel(b.ctx)
	part := &shard{cancel: cancel, ready: make(chan struct{})}
	if ctx.Err() != nil {
		cancel()
		close(part.ready)
		return part.ready
	}
	part.idle = time.AfterFunc(d, func() { b.leave(channel, part) })
	b.shards[channel] = part
	tried := sync.OnceFunc(func() { close(part.ready) })
	one := subscription{
		store: b.store, channel: channel, sharded: true, heard: b.received, ended: tried,
		begun: func() {
			tried()
			// What was handed on to it before may have been missed.
			b.handed(driver.HandOff{Name: name})
		},
	}
	b.running.Go(func() { one.keep(ctx) })
	return part.ready
}

func (b *inbox) leave(channel string, part *shard) {
	part.cancel()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.shards[channel] == part {
		delete(b.shards, channel)
	}
}

func (b *inbox) restored() {
	b.calls.Lock()
	defer b.calls.Unlock()
	b.listener.Restored()
}

// received reads what the script handon sends: the key of the name, and the
// token.
func (b *inbox) received(message string) {
	lock, token, _ := strings.Cut(message, "\n")
	b.handed(driver.HandOff{Name: strings.TrimPrefix(lock, b.store.prefix), Token: token})
}

func (b *inbox) handed(h driver.HandOff) {
	b.calls.Lock()
	defer b.calls.Unlock()
	b.listener.Handed(h)
}
