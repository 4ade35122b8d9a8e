package resource

import (
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/holdfastlock/holdfast/torture/history"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve returns a client of a new server, and what that decided so far.
func serve(t *testing.T) (*Client, func() []history.Event) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "socket")
	var mu sync.Mutex
	var decided []history.Event
	server, err := Listen(path, func(e history.Event) {
		mu.Lock()
		defer mu.Unlock()
		decided = append(decided, e)
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	client, err := Dial(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client, func() []history.Event {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(decided)
	}
}

// ask sends a request of a holder and checks the answer.
func ask(t *testing.T, c *Client, request history.Event, outcome history.Outcome, version int64) {
	t.Helper()
	answer, err := c.Do(request)
	if err != nil || answer.Outcome != outcome || answer.Version != version {
		t.Errorf("%s with fence %d: answered %s, version %d, %v, want %s, version %d",
			request.Do, request.Fence, answer.Outcome, answer.Version, err, outcome, version)
	}
}

// of returns a request of the holder of a fence.
func of(fence int64, do history.Do, name string) history.Event {
	return history.Event{Process: "w1.1", Op: 2 * fence, Lease: fence, Do: do, Name: name, Fence: fence}
}

func TestAGuardedResourceRefusesAnOlderHolder(t *testing.T) {
	c, decided := serve(t)
	ask(t, c, of(1, history.Touch, "guarded/a"), history.OK, 0)
	ask(t, c, of(1, history.Write, "guarded/a"), history.OK, 1)
	ask(t, c, of(2, history.Touch, "guarded/a"), history.OK, 1)
	ask(t, c, of(1, history.Write, "guarded/a"), history.StaleFence, 0)
	ask(t, c, of(1, history.Touch, "guarded/a"), history.StaleFence, 0)
	ask(t, c, of(2, history.Write, "guarded/a"), history.OK, 2)
	var kinds []history.Kind
	for _, e := range decided() {
		if !e.Guarded || e.Process != "w1.1" || e.Lease != e.Fence || e.At == 0 {
			t.Errorf("decided %+v", e)
		}
		kinds = append(kinds, e.Kind)
	}
	want := []history.Kind{history.Accepted, history.Accepted, history.Accepted, history.Stale, history.Stale, history.Accepted}
	if !slices.Equal(kinds, want) {
		t.Errorf("decided %v, want %v", kinds, want)
	}
}

func TestAnUnguardedResourceLetsTheOlderHolderOverwrite(t *testing.T) {
	c, decided := serve(t)
	ask(t, c, of(2, history.Write, "unguarded/a"), history.OK, 1)
	ask(t, c, of(1, history.Write, "unguarded/a"), history.OK, 2)
	ask(t, c, of(1, history.Read, "unguarded/a"), history.OK, 2)
	ask(t, c, of(1, history.Read, "unguarded/b"), history.OK, 0)
	for _, e := range decided() {
		if e.Guarded || e.Kind != history.Accepted {
			t.Errorf("decided %+v", e)
		}
	}
	if n := len(decided()); n != 2 {
		t.Errorf("%d decisions, want those of the writes", n)
	}
}
