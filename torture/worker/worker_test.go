package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfastlock/holdfast/torture/history"
	"github.com/holdfastlock/holdfast/torture/resource"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// toy is a library of locks for one process. What it does with a lease is up
// to the test.
type toy struct {
	mu    sync.Mutex
	held  map[string]bool
	fence int64
	// granted may change a lease before the worker gets it.
	granted func(l *toyLease, request Request)
	closed  bool
	decided []history.Event // by the resources
}

var errHeld, errAgain = errors.New("held"), errors.New("no answer")

type toyLease struct {
	toy      *toy
	name     string
	fence    int64
	deadline time.Time
	done     chan struct{}
	ended    bool
	failures int // of Release, before it succeeds
}

func (l *toy) Acquire(_ context.Context, request Request) (Lease, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held[request.Name] {
		return nil, errHeld
	}
	l.held[request.Name] = true
	l.fence++
	lease := &toyLease{toy: l, name: request.Name, fence: l.fence, deadline: time.Now().Add(request.TTL), done: make(chan struct{})}
	if l.granted != nil {
		l.granted(lease, request)
	}
	return lease, nil
}

func (l *toy) RunSlot(ctx context.Context, run Run) (string, bool, error) {
	lease, err := l.Acquire(ctx, Request{Name: run.Job, TTL: time.Minute, Extended: run.Extended})
	if errors.Is(err, errHeld) {
		return "", true, nil
	}
	run.Work("slot", 1, lease)
	return "slot", false, lease.Release(ctx)
}

func (l *toy) Outcome(err error) history.Outcome {
	switch {
	case err == nil:
		return history.OK
	case errors.Is(err, errHeld):
		return history.Held
	default:
		return history.Unreachable
	}
}

func (l *toy) Close(context.Context) error {
	l.closed = true
	return nil
}

func (l *toyLease) Fence() int64                 { return l.fence }
func (l *toyLease) Deadline() time.Time          { return l.deadline }
func (l *toyLease) Done() <-chan struct{}        { return l.done }
func (l *toyLease) Extend(context.Context) error { return nil }

// end closes done, once.
func (l *toyLease) end() {
	if !l.ended {
		l.ended = true
		close(l.done)
	}
}

func (l *toyLease) Release(context.Context) error {
	if l.failures > 0 {
		l.failures--
		return errAgain
	}
	l.toy.mu.Lock()
	defer l.toy.mu.Unlock()
	delete(l.toy.held, l.name)
	l.end()
	return nil
}

// runToy runs a worker on the toy until enough says so of its history, and
// returns that.
func runToy(t *testing.T, l *toy, names Names, enough func([]history.Event) bool) []history.Event {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "socket")
	resources, err := resource.Listen(socket, func(e history.Event) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.decided = append(l.decided, e)
	})
	if err != nil {
		t.Fatal(err)
	}
	defer resources.Close()
	settings, err := json.Marshal(Settings{
		Process: "w1.1", Resource: socket, Seed: 1, Clients: 4, TTL: 100 * time.Millisecond, OwnTTL: time.Second, StoreTimeout: time.Second, Names: names,
	})
	if err != nil {
		t.Fatal(err)
	}
	l.held = make(map[string]bool)
	stdin, tell := io.Pipe()
	heard, stdout := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		defer stdout.Close()
		ended <- run(stdin, stdout, func(context.Context, Settings) (Locker, error) { return l, nil })
	}()
	if _, err := tell.Write(append(settings, '\n')); err != nil {
		t.Fatal(err)
	}
	var events []history.Event
	stopping := sync.OnceFunc(func() { tell.Close() })
	timeout := time.AfterFunc(20*time.Second, stopping)
	defer timeout.Stop()
	err = history.Decode(heard, func(e history.Event) {
		events = append(events, e)
		if enough(events) {
			stopping()
		}
	})
	if err := errors.Join(err, <-ended); err != nil {
		t.Fatal(err)
	}
	if !l.closed {
		t.Error("the library was not closed")
	}
	return events
}

var everything = Names{Locks: []string{"a"}, Queues: []string{"q"}, Registers: []string{"r"}, Jobs: []string{"j", "k"}}

func TestEveryCallIsToldBeforeItIsMadeAndHasItsReturn(t *testing.T) {
	const operations = 7
	seen := make(map[history.Do]int)
	events := runToy(t, &toy{}, everything, func(events []history.Event) bool {
		seen[events[len(events)-1].Do]++
		return len(seen) == operations && seen[history.Write] > 10
	})
	open := make(map[int64]history.Do)
	clients := make(map[int]int) // calls under way
	for _, e := range events {
		switch e.Kind {
		case history.Call:
			open[e.Op] = e.Do
			clients[e.Client]++
		case history.Return:
			if open[e.Op] != e.Do || e.Outcome == "" {
				t.Errorf("%+v returns from %q", e, open[e.Op])
			}
			delete(open, e.Op)
			clients[e.Client]--
		default:
		}
		if e.Process != "w1.1" || e.At == 0 || clients[e.Client] > 2 { // a run, and an operation in it
			t.Errorf("told %+v while %d calls of its client were under way", e, clients[e.Client])
		}
	}
	if len(open) > 0 || len(seen) != operations {
		t.Errorf("without return: %v; seen %v", open, seen)
	}
}

// ofKind returns the events of a kind.
func ofKind(events []history.Event, kind history.Kind) []history.Event {
	return slices.DeleteFunc(slices.Clone(events), func(e history.Event) bool { return e.Kind != kind })
}

func TestALossIsToldOnceAndNotAfterARelease(t *testing.T) {
	lost := func(l *toyLease, _ Request) {
		if l.fence%2 == 0 {
			l.end()
		}
	}
	events := runToy(t, &toy{granted: lost}, Names{}, func(events []history.Event) bool { return len(ofKind(events, history.Lost)) == 2 })
	lossOf := make(map[int64]int)
	for _, e := range ofKind(events, history.Lost) {
		lossOf[e.Op]++
	}
	for _, e := range ofKind(events, history.Return) {
		// A client that releases at once may never have looked.
		if n := lossOf[e.Op]; e.Do == history.Acquire && n > int(1-e.Fence%2) {
			t.Errorf("the loss of fence %d was told %d times", e.Fence, n)
		}
	}
	if len(lossOf) == 0 {
		t.Error("no loss was told")
	}
}

func TestAnExtensionByTheLibraryIsToldWithItsDeadline(t *testing.T) {
	far := time.Now().Add(time.Hour)
	extends := func(_ *toyLease, request Request) { request.Extended(far) }
	events := runToy(t, &toy{granted: extends}, Names{}, func(events []history.Event) bool { return len(ofKind(events, history.Extended)) == 5 })
	acquires := make(map[int64]bool)
	for _, e := range events {
		acquires[e.Op] = acquires[e.Op] || e.Do == history.Acquire
		if e.Kind == history.Extended && (!acquires[e.Op] || time.Duration(e.Deadline-history.Moment(far)).Abs() > time.Second) {
			t.Errorf("told %+v, want the deadline %d of an acquire", e, history.Moment(far))
		}
	}
}

func TestTheWorkOfASlotIsToldFromItsBeginToItsEnd(t *testing.T) {
	var l toy
	told := make(map[int64][]history.Kind) // by run
	runs := 0
	runToy(t, &l, Names{Jobs: []string{"j"}}, func(events []history.Event) bool {
		e := events[len(events)-1]
		if e.Do != history.RunSlot {
			return false
		}
		told[e.Op] = append(told[e.Op], e.Kind)
		if e.Outcome != history.OK {
			return false
		}
		want := []history.Kind{history.Call, history.Began, history.Ended, history.Return}
		if !slices.Equal(told[e.Op], want) || e.Slot != "slot" {
			t.Errorf("a run of slot %q was told as %v, want %v", e.Slot, told[e.Op], want)
		}
		runs++
		return runs > 3
	})
	if runs == 0 {
		t.Error("no slot was run")
	}
}

func TestAResourceIsToldWhoseLeaseARequestIsMadeUnder(t *testing.T) {
	var l toy
	events := runToy(t, &l, everything, func(events []history.Event) bool {
		e := events[len(events)-1]
		return e.Do == history.Write && e.Op > 100
	})
	acquires := make(map[int64]int64) // their fences
	for _, e := range events {
		if e.Do == history.Acquire {
			acquires[e.Op] = e.Fence
		}
	}
	for _, e := range l.decided {
		if e.Process != "w1.1" || e.Fence == 0 || acquires[e.Lease] != e.Fence {
			t.Errorf("decided %+v; the fence of its lease is %d", e, acquires[e.Lease])
		}
	}
	if len(l.decided) == 0 {
		t.Error("nothing was asked of the resources")
	}
}

func TestAcquiresWithoutAFenceHaveNamesOfTheirOwn(t *testing.T) {
	names := everything
	names.Unfenced = []string{"u"}
	asked := make(map[string]bool)
	notes := func(_ *toyLease, request Request) { asked[request.Name] = request.Unfenced } // the toy's mutex is held
	seen := make(map[bool]int)
	events := runToy(t, &toy{granted: notes}, names, func(events []history.Event) bool {
		if e := events[len(events)-1]; e.Kind == history.Call && e.Do == history.Acquire {
			seen[e.Unfenced]++
		}
		return seen[true] > 20 && seen[false] > 20
	})
	for _, e := range ofKind(events, history.Call) {
		want := e.Do == history.Acquire && (e.Name == "u" || strings.HasSuffix(e.Name, "/unfenced"))
		if e.Unfenced != want || asked[e.Name] != e.Unfenced && e.Do == history.Acquire {
			t.Errorf("told %+v, the library: %t", e, asked[e.Name])
		}
	}
}

func TestAReleaseWithoutAnswerIsTriedAgain(t *testing.T) {
	fails := func(l *toyLease, _ Request) { l.failures = 1 }
	events := runToy(t, &toy{granted: fails}, Names{}, func(events []history.Event) bool { return len(events) > 100 })
	outcomes := make(map[int64][]history.Outcome) // by lease
	for _, e := range ofKind(events, history.Return) {
		if e.Do == history.Release {
			outcomes[e.Lease] = append(outcomes[e.Lease], e.Outcome)
		}
	}
	for lease, got := range outcomes {
		if want := []history.Outcome{history.Unreachable, history.OK}; !slices.Equal(got, want) {
			t.Errorf("releases of lease %d ended as %v, want %v", lease, got, want)
		}
	}
	if len(outcomes) == 0 {
		t.Error("nothing was released")
	}
}

func TestAWorkerWithoutSettingsFails(t *testing.T) {
	opens := func(context.Context, Settings) (Locker, error) { return nil, errAgain }
	for _, text := range []string{"", "{}", "no JSON\n", "{}\n"} {
		if err := run(strings.NewReader(text), &bytes.Buffer{}, opens); err == nil {
			t.Errorf("settings %q: no error", text)
		}
	}
}
