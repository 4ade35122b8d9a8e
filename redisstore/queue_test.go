package redisstore

import (
	"testing"
	"time"

	"github.com/holdfastlock/holdfast/driver"
)

// listened is an inbox, and what its listener was called with, as far as there
// is room for it.
type listened struct {
	driver.Inbox
	handed   chan driver.HandOff
	hints    chan driver.HandOff // without a token
	restored chan struct{}
}

// listen returns an inbox that listens.
func listen(t *testing.T, store *Store) *listened {
	t.Helper()
	l := &listened{
		handed: make(chan driver.HandOff, 100), hints: make(chan driver.HandOff, 100), restored: make(chan struct{}, 100),
	}
	l.Inbox = store.OpenInbox(driver.Listener{
		Handed: func(h driver.HandOff) {
			to := l.handed
			if h.Token == "" {
				to = l.hints
			}
			select {
			case to <- h:
			default:
			}
		},
		Restored: func() { l.restored <- struct{}{} },
	})
	t.Cleanup(l.Close)
	listens(t, l)
	return l
}

func listens(t *testing.T, l *listened) {
	t.Helper()
	select {
	case <-l.restored:
	case <-time.After(patience):
		t.Fatal("the inbox does not listen")
	}
}

// hinted waits until the inbox is told that waiters should look again.
func hinted(t *testing.T, l *listened) {
	t.Helper()
	select {
	case <-l.hints:
	case <-time.After(patience):
		t.Fatal("told no waiter to look again")
	}
}

// waiting enqueues a fresh token, which must find so many before it.
func waiting(t *testing.T, store *Store, name string, inbox driver.Inbox, before int) driver.QueueRequest {
	t.Helper()
	req := driver.QueueRequest{AcquireRequest: request(name), Inbox: inbox.Address(), Keep: time.Minute}
	waits(t, store, req, before)
	return req
}

func waits(t *testing.T, store *Store, req driver.QueueRequest, before int) {
	t.Helper()
	result, err := store.Enqueue(within(t), req)
	if err != nil || result.Granted || result.Before != before {
		t.Fatalf("Enqueue %q: %+v, %v, want %d before", req.Name, result, err, before)
	}
}

// claim must be granted.
func claim(t *testing.T, store *Store, req driver.QueueRequest) int64 {
	t.Helper()
	result, err := store.Enqueue(within(t), req)
	if err != nil || !result.Granted || result.Fence == 0 {
		t.Fatalf("Enqueue %q: %+v, %v, want a grant", req.Name, result, err)
	}
	return result.Fence
}

func told(t *testing.T, l *listened, req driver.QueueRequest) {
	t.Helper()
	select {
	case got := <-l.handed:
		if got != (driver.HandOff{Name: req.Name, Token: req.Token}) {
			t.Fatalf("told %+v, want %q to %s", got, req.Name, req.Token)
		}
	case <-time.After(patience):
		t.Fatalf("not told of %q", req.Name)
	}
}
