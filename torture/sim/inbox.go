package sim

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/holdfastlock/holdfast/driver"
)

// notifying is a line to a store that keeps no queue.
type notifying struct {
	driver.Store
	driver.Notifier
	driver.SlotKeeper
	seam
}

// seam is what the seam asks for.
type seam interface {
	Clock() (at time.Time, wall, boot time.Duration)
	Random() float64
}

// locks returns the line as the process's locker has it.
func (l *line) locks() driver.Store {
	if l.process.world.queues {
		return l
	}
	return notifying{l, l, l, l}
}

// Enqueue goes over the line.
func (l *line) Enqueue(ctx context.Context, req driver.QueueRequest) (driver.QueueResult, error) {
	result, err := send(ctx, l, func() (driver.QueueResult, error) {
		result, err := l.Store.Enqueue(context.Background(), req)
		l.process.world.stored(req.AcquireRequest, result.AcquireResult)
		return result, err
	})
	l.compare(req.AcquireRequest, result.AcquireResult)
	return result, err
}

// inbox is one of the store's, of which the messages come over the line: late,
// twice, or not at all.
type inbox struct {
	driver.Inbox
	line     *line
	listener driver.Listener

	mu     sync.Mutex // held while the listener is called
	closed bool
}

// OpenInbox opens an inbox that listens when the line carries something.
func (l *line) OpenInbox(listener driver.Listener) driver.Inbox {
	box := &inbox{line: l, listener: listener}
	box.Inbox = l.Store.OpenInbox(driver.Listener{Handed: box.handed, Restored: box.restored})
	l.mu.Lock()
	l.inboxes = append(l.inboxes, box)
	l.mu.Unlock()
	return box
}

// restored is on its way when a connection is new.
func (b *inbox) restored() { b.later(0, b.listener.Restored) }

// handed is on its way once; now and then it comes again when it is old.
func (b *inbox) handed(h driver.HandOff) {
	w := b.line.process.world
	w.mu.Lock()
	w.result.HandedOn++
	w.mu.Unlock()
	tell := func() { b.listener.Handed(h) }
	b.later(0, tell)
	if w.Random() < 0.1 {
		b.later(4*time.Second, tell)
	}
}

// later has the listener told over the line, unless the message is lost.
func (b *inbox) later(pause time.Duration, tell func()) {
	p := b.line.process
	p.world.requests.Go(func() {
		fate := b.line.draw()
		time.Sleep(pause + fate.back)
		p.gate()
		if p.isDead() || fate.requestLost || fate.replyLost || !b.line.hears() {
			return
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		if !b.closed {
			tell()
		}
	})
}

// hears says whether messages arrive.
func (l *line) hears() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.loss < 1 && !l.deaf && !l.process.world.isDown()
}

// Close ends it for both sides.
func (b *inbox) Close() {
	b.Inbox.Close()
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.line.mu.Lock()
	defer b.line.mu.Unlock()
	b.line.inboxes = slices.DeleteFunc(b.line.inboxes, func(other *inbox) bool { return other == b })
}

// hangUp lets the store see that the process is gone.
func (l *line) hangUp() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, box := range l.inboxes {
		box.Inbox.Close()
	}
}
