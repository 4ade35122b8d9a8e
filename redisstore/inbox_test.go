package redisstore

import (
	"testing"

	"github.com/holdfastlock/holdfast/driver"
	"github.com/holdfastlock/holdfast/internal/redistest"
)

// subscribers says how many connections listen to the inbox.
func subscribers(t *testing.T, server *redistest.Server, inbox driver.Inbox) int64 {
	t.Helper()
	counts, err := server.Do("PUBSUB", "NUMSUB", inbox.Address()).ToArray()
	if err != nil || len(counts) != 2 {
		t.Fatalf("PUBSUB NUMSUB: %v, %v", counts, err)
	}
	n, _ := counts[1].AsInt64()
	return n
}

func TestAnInboxIsOneSubscriptionForAllNames(t *testing.T) {
	server, store := given(t)
	inbox := listen(t, store)
	for _, name := range []string{"one", "another", "{tag}third"} {
		held := request(name)
		acquire(t, store, held)
		req := waiting(t, store, name, inbox, 0)
		release(t, store, held, driver.Mine)
		told(t, inbox, req)
	}
	if n := subscribers(t, server, inbox); n != 1 {
		t.Errorf("%d subscriptions, want 1", n)
	}
	inbox.Close()
	inbox.Close()
	if n := subscribers(t, server, inbox); n != 0 {
		t.Errorf("%d subscriptions after Close", n)
	}
}

func TestAnInboxSaysWhenItListensAgain(t *testing.T) {
	server, store := given(t)
	inbox := listen(t, store)
	for what, happens := range map[string]func(){
		"CLIENT KILL pubsub": func() { do(t, server, "CLIENT", "KILL", "TYPE", "pubsub") },
		"a restart":          func() { server.Restart(false) },
	} {
		happens()
		listens(t, inbox)
		if n := subscribers(t, server, inbox); n != 1 {
			t.Errorf("after %s: %d subscriptions, want 1", what, n)
		}
		held := request(what)
		acquire(t, store, held)
		req := waiting(t, store, held.Name, inbox, 0)
		release(t, store, held, driver.Mine)
		told(t, inbox, req)
	}
}

func TestAnInboxOpenedBeforeTheServerIsUpListensThen(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	server.Kill()
	restored := make(chan struct{}, 1)
	inbox := open(t, server.Addr()).OpenInbox(driver.Listener{Restored: func() { restored <- struct{}{} }})
	defer inbox.Close()
	select {
	case <-restored:
		t.Error("it listens without a server")
	default:
	}
	server.Restart(false)
	listens(t, &listened{restored: restored})
}
