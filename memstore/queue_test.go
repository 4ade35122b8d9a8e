package memstore_test

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfastlock/holdfast/driver"
	"github.com/holdfastlock/holdfast/memstore"
)

// listened is an inbox, and what its listener was called with.
type listened struct {
	driver.Inbox
	handed   []string
	restored int
}

func listen(t *testing.T, store *memstore.Store) *listened {
	t.Helper()
	l := &listened{}
	l.Inbox = store.OpenInbox(driver.Listener{
		Handed:   func(h driver.HandOff) { l.handed = append(l.handed, h.Token) },
		Restored: func() { l.restored++ },
	})
	t.Cleanup(l.Close)
	return l
}

func enqueue(t *testing.T, store *memstore.Store, token string, inbox driver.Inbox) driver.QueueResult {
	t.Helper()
	result, err := store.Enqueue(t.Context(), driver.QueueRequest{
		AcquireRequest: driver.AcquireRequest{Name: "job", Token: token, TTL: time.Minute},
		Inbox:          inbox.Address(), Keep: time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	return result
}

func release(t *testing.T, store *memstore.Store, token string) {
	t.Helper()
	if _, err := store.Release(t.Context(), driver.ReleaseRequest{Name: "job", Token: token}); err != nil {
		t.Fatal(err)
	}
}

func holds(t *testing.T, store *memstore.Store) string {
	t.Helper()
	state, err := store.Inspect(t.Context(), "job")
	if err != nil || len(state.Holders) > 1 {
		t.Fatalf("%+v, %v", state, err)
	}
	if len(state.Holders) == 0 {
		return ""
	}
	return state.Holders[0].Token
}

func TestACutInboxIsPassedOverUntilItIsRestored(t *testing.T) {
	store := memstore.New()
	deaf := listen(t, store)
	acquire(t, store, "holder", time.Minute)
	enqueue(t, store, "deaf", deaf)
	restore := store.CutInboxes()
	other := listen(t, store)
	enqueue(t, store, "other", other)
	release(t, store, "holder")
	if holds(t, store) != "other" || len(deaf.handed) != 0 || !slices.Equal(other.handed, []string{"other"}) {
		t.Errorf("%q holds it; told: %q, %q", holds(t, store), deaf.handed, other.handed)
	}
	restore()
	if deaf.restored != 2 || other.restored != 1 {
		t.Errorf("restored %d and %d times, want 2 and 1, counting the opening", deaf.restored, other.restored)
	}
	enqueue(t, store, "deaf", deaf)
	release(t, store, "other")
	if holds(t, store) != "deaf" || !slices.Equal(deaf.handed, []string{"deaf"}) {
		t.Errorf("%q holds it; told: %q", holds(t, store), deaf.handed)
	}
}

func TestAHandOffWhoseMessageIsLostIsKeptForTheClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		inbox := listen(t, store)
		store.SetFault(func(op string) memstore.Fault {
			if op == "handoff" {
				return memstore.Fault{After: errors.New("lost")}
			}
			return memstore.Fault{}
		})
		acquire(t, store, "holder", time.Minute)
		enqueue(t, store, "waiter", inbox)
		release(t, store, "holder")
		if len(inbox.handed) != 0 {
			t.Errorf("told %q although the message was lost", inbox.handed)
		}
		time.Sleep(driver.Claim - 1)
		if holds(t, store) != "waiter" {
			t.Error("not kept for the waiter")
		}
		time.Sleep(time.Nanosecond)
		if holds(t, store) != "" {
			t.Error("kept too long")
		}
	})
}

func TestAPlaceEndsExactlyWhenNobodyHasAskedForItsKeep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		inbox := listen(t, store)
		acquire(t, store, "holder", time.Hour)
		enqueue(t, store, "first", inbox)
		time.Sleep(time.Minute - 1)
		if before := enqueue(t, store, "second", inbox).Before; before != 1 {
			t.Errorf("%d before the second, want 1", before)
		}
		time.Sleep(time.Minute)
		if before := enqueue(t, store, "third", inbox).Before; before != 0 {
			t.Errorf("%d before the third, want 0", before)
		}
	})
}

func TestAWipeForgetsTheQueue(t *testing.T) {
	store := memstore.New()
	inbox := listen(t, store)
	acquire(t, store, "holder", time.Minute)
	enqueue(t, store, "waiter", inbox)
	store.Wipe()
	acquire(t, store, "holder", time.Minute)
	release(t, store, "holder")
	if holds(t, store) != "" || inbox.restored != 1 || len(inbox.handed) != 0 {
		t.Errorf("%q holds it, told %q", holds(t, store), inbox.handed)
	}
}
