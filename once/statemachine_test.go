package once

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/holdfastlock/holdfast"
	"github.com/holdfastlock/holdfast/driver"
	"github.com/holdfastlock/holdfast/memstore"
)

// TestWhateverHappensASlotIsDoneOnce has four hosts run slots of one job while
// requests and replies are lost and hosts are cut off, so that they lose what
// they run and go on as zombies.
func TestWhateverHappensASlotIsDoneOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64().Draw(t, "seed")
		rapid.SyncTest(t, func(t *rapid.T) {
			m := newMachine(seed)
			t.Repeat(map[string]func(*rapid.T){
				"":     m.check,
				"come": m.come,
				"pass": m.pass,
				"line": m.line,
			})
			m.settle(t)
		})
	})
}

// machine is the system under test, and what must be true of it.
type machine struct {
	store *memstore.Store
	lines []*line
	calls sync.WaitGroup

	mu      sync.Mutex
	random  *rand.Rand
	trusted int   // runs whose context is alive
	fence   int64 // of the last run that began
	slots   map[string]*history
	wrong   string
}

// history is what happened to one slot.
type history struct {
	attempt int // of the last run that began
	success int // runs that returned without error, as Run saw it
	failed  int
	lost    bool // by AtMostOnce
}

func newMachine(seed uint64) *machine {
	m := &machine{store: memstore.New(), random: rand.New(rand.NewPCG(seed, 1)), slots: make(map[string]*history)}
	for i := range 4 {
		l := &line{Store: m.store, machine: m}
		l.locker, _ = holdfast.New(l, holdfast.Config{
			Owner: fmt.Sprintf("host-%d", i), TTL: ttl, StoreTimeout: 2 * time.Second,
		})
		m.lines = append(m.lines, l)
	}
	return m
}

func (m *machine) fail(format string, args ...any) {
	if m.wrong == "" {
		m.wrong = fmt.Sprintf(format, args...)
	}
}

func (m *machine) check(t *rapid.T) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.wrong != "" {
		t.Fatal(m.wrong)
	}
}

// come lets a host run a slot.
func (m *machine) come(t *rapid.T) {
	l := rapid.SampledFrom(m.lines).Draw(t, "host")
	slot := rapid.SampledFrom([]string{"1", "2", "3"}).Draw(t, "slot")
	takes := time.Duration(rapid.IntRange(0, 30).Draw(t, "takes")) * time.Second
	fails := rapid.IntRange(0, 3).Draw(t, "fails") == 0
	stubborn := rapid.Bool().Draw(t, "goes on when its context has ended")
	var opts []Option
	switch rapid.IntRange(0, 3).Draw(t, "option") {
	case 0:
		opts = append(opts, StandBy(Forever))
	case 1:
		opts = append(opts, StandBy(20*time.Second), RetryFailed())
	case 2:
		opts = append(opts, MaxAttempts(rapid.IntRange(1, 3).Draw(t, "attempts")))
	}
	m.calls.Go(func() {
		result, err := Run(context.Background(), l.locker, "job", Slot(slot), func(ctx context.Context, a Attempt) error {
			m.began(ctx, a)
			if stubborn {
				time.Sleep(takes)
			} else if err := sleep(ctx, takes); err != nil {
				return err
			}
			if fails {
				return errors.New("it failed")
			}
			return nil
		}, opts...)
		m.ended(slot, result, err)
	})
}

// began notes a run. It is trusted until its context ends or, at the latest,
// before its call returns.
func (m *machine) began(ctx context.Context, a Attempt) {
	m.mu.Lock()
	defer m.mu.Unlock()
	h := m.slots[a.Slot]
	if h == nil {
		h = &history{}
		m.slots[a.Slot] = h
	}
	m.trusted++
	context.AfterFunc(ctx, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.trusted--
	})
	switch {
	case a.Lease.Valid(1) && m.trusted > 1 && ctx.Err() == nil:
		m.fail("%d runs are trusted", m.trusted)
	case a.Lease.Fence() <= m.fence:
		m.fail("slot %s: fence %d after %d", a.Slot, a.Lease.Fence(), m.fence)
	case a.Number <= h.attempt:
		m.fail("slot %s: attempt %d after %d", a.Slot, a.Number, h.attempt)
	case h.success > 0:
		m.fail("slot %s runs again after it was done", a.Slot)
	case h.lost:
		m.fail("slot %s runs after it was lost", a.Slot)
	}
	m.fence, h.attempt = a.Lease.Fence(), a.Number
}

// ended notes what a call came to.
func (m *machine) ended(slot string, result Result, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	h := m.slots[slot]
	if h == nil {
		h = &history{}
		m.slots[slot] = h
	}
	switch {
	case result.Outcome == Ran && err == nil:
		if h.success++; h.success > 1 {
			m.fail("slot %s was done %d times", slot, h.success)
		}
	case result.Outcome == Ran:
		h.failed++
	case result.Outcome == Done || result.Outcome == StoodBy:
		if result.Run.Phase != driver.Done {
			m.fail("slot %s: %v, but the run is %+v", slot, result.Outcome, result.Run)
		}
	case result.Outcome == Lost:
		h.lost = true
	case result.Outcome == Running || result.Outcome == 0:
		kinds := 0
		for _, kind := range []error{holdfast.ErrHeld, holdfast.ErrLost, holdfast.ErrUnreachable} {
			if errors.Is(err, kind) {
				kinds++
			}
		}
		if kinds != 1 && (result.Outcome == 0 || err != nil) {
			m.fail("slot %s: %v, %v", slot, result.Outcome, err)
		}
	}
}

func (m *machine) pass(t *rapid.T) {
	time.Sleep(time.Duration(rapid.IntRange(0, 15000).Draw(t, "ms")) * time.Millisecond)
}

// line changes how bad the line of a host is.
func (m *machine) line(t *rapid.T) {
	l := rapid.SampledFrom(m.lines).Draw(t, "host")
	m.mu.Lock()
	defer m.mu.Unlock()
	l.rate = rapid.SampledFrom([]float64{0, 0.2, 1, 2}).Draw(t, "rate")
}

// settle heals all lines: then every slot that is not lost comes to be done, and
// the job is free.
func (m *machine) settle(t *rapid.T) {
	m.mu.Lock()
	for _, l := range m.lines {
		l.rate = 0
	}
	m.mu.Unlock()
	m.calls.Wait()
	for slot := range m.slots {
		result, err := Run(context.Background(), m.lines[0].locker, "job", Slot(slot), works, StandBy(Forever))
		if err != nil || result.Outcome != Ran && result.Outcome != Done && result.Outcome != Lost && result.Outcome != StoodBy {
			t.Errorf("slot %s: %v, %v", slot, result.Outcome, err)
		}
	}
	for _, l := range m.lines {
		l.locker.Close(context.Background())
	}
	if state, _ := m.store.Inspect(context.Background(), "job"); len(state.Holders) != 0 {
		t.Errorf("the job is held after all: %+v", state)
	}
	if runs, err := m.store.Runs(context.Background(), "job", 10); err != nil || len(runs) < len(m.slots) {
		t.Errorf("%d of %d slots are listed, %v", len(runs), len(m.slots), err)
	}
	m.check(t)
}

// line is the store as one host sees it: requests and replies are lost.
type line struct {
	*memstore.Store
	machine *machine
	locker  *holdfast.Locker
	rate    float64 // guarded by the machine's mutex
}

func (l *line) lost() bool {
	l.machine.mu.Lock()
	defer l.machine.mu.Unlock()
	return l.machine.random.Float64() < l.rate/2 // there and back: 2 is cut off
}

func send[T any](l *line, op func() (T, error)) (T, error) {
	var none T
	time.Sleep(time.Millisecond)
	if l.lost() {
		return none, errLine
	}
	answer, err := op()
	time.Sleep(time.Millisecond)
	if l.lost() {
		return none, errLine
	}
	return answer, err
}

// Acquire and the others go over the line.
func (l *line) Acquire(ctx context.Context, req driver.AcquireRequest) (driver.AcquireResult, error) {
	return send(l, func() (driver.AcquireResult, error) { return l.Store.Acquire(ctx, req) })
}

func (l *line) Extend(ctx context.Context, reqs []driver.ExtendRequest) []driver.ExtendResult {
	results, err := send(l, func() ([]driver.ExtendResult, error) { return l.Store.Extend(ctx, reqs), nil })
	if err != nil {
		results = make([]driver.ExtendResult, len(reqs))
		for i := range results {
			results[i].Err = err
		}
	}
	return results
}

func (l *line) Release(ctx context.Context, req driver.ReleaseRequest) (driver.Answer, error) {
	return send(l, func() (driver.Answer, error) { return l.Store.Release(ctx, req) })
}

func (l *line) BeginSlot(ctx context.Context, req driver.BeginRequest) (driver.BeginResult, error) {
	return send(l, func() (driver.BeginResult, error) { return l.Store.BeginSlot(ctx, req) })
}

func (l *line) FinishSlot(ctx context.Context, req driver.FinishRequest) (driver.Answer, error) {
	return send(l, func() (driver.Answer, error) { return l.Store.FinishSlot(ctx, req) })
}
