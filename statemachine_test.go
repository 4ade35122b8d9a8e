package holdfast

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfastlock/holdfast/driver"
	"github.com/holdfastlock/holdfast/memstore"
	"pgregory.net/rapid"
)

// TestWhateverHappensNoTwoLeasesAreTrustedAndFencesGrow has three processes
// compete for one name while requests and replies are lost and late, clocks
// drift and jump, and machines are suspended.
func TestWhateverHappensNoTwoLeasesAreTrustedAndFencesGrow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64().Draw(t, "seed")
		rapid.SyncTest(t, func(t *rapid.T) {
			m := newMachine(seed)
			t.Repeat(map[string]func(*rapid.T){
				"":        m.check,
				"acquire": m.acquire,
				"wait":    m.wait,
				"crowd":   m.crowd,
				"line":    m.line,
				"extend":  m.extend,
				"release": m.release,
				"pass":    m.pass,
				"suspend": m.suspend,
				"step":    m.step,
				"faults":  m.faults,
				"wipe":    m.wipe,
			})
			m.settle(t)
		})
	})
}

const processes = 3

// machine is the system under test, and what must be true of it.
type machine struct {
	store   *memstore.Store
	process [processes]*process

	underWay atomic.Int32 // requests that have not arrived yet

	mu      sync.Mutex
	random  *rand.Rand
	leases  []*Lease // all that were ever granted
	fence   int64    // the largest
	overlap string
}

// process is one process on a machine of its own, with its clocks.
type process struct {
	machine *machine
	network *network
	locker  *Locker
	mu      sync.Mutex
	asleep  time.Duration
	stepped time.Duration
	drift   float64
	start   time.Time
}

func newMachine(seed uint64) *machine {
	m := &machine{store: memstore.New(), random: rand.New(rand.NewPCG(seed, 1))}
	m.store.SetFault(m.loseMessages)
	for i := range m.process {
		p := &process{machine: m, start: time.Now(), drift: []float64{0, 0.004, -0.004}[i]}
		p.network = &network{machine: m, Store: m.store}
		p.locker, _ = newLocker(p.network, Config{TTL: 10 * time.Second, StoreTimeout: 2 * time.Second, Events: Events{Acquired: m.granted}}, p.now)
		m.process[i] = p
	}
	return m
}

// now is the process's clock, which may run a little slower or faster than the
// store's.
func (p *process) now() instant {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	passed := now.Sub(p.start)
	at := now.Add(share(passed, p.drift))
	boot := passed + share(passed, p.drift) + p.asleep
	return instant{at: at, boot: time.Hour + boot, wall: boot + p.stepped}
}

// loseMessages loses every tenth message of a hand-off.
func (m *machine) loseMessages(op string) memstore.Fault {
	m.mu.Lock()
	defer m.mu.Unlock()
	if op == "handoff" && m.random.IntN(10) == 0 {
		return memstore.Fault{Before: errDown}
	}
	return memstore.Fault{}
}

// granted is told of each grant at the moment of it.
func (m *machine) granted(e Event) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e.Fence <= m.fence {
		m.overlap = fmt.Sprintf("fence %d was granted after %d", e.Fence, m.fence)
	}
	m.fence = max(m.fence, e.Fence)
}

func (m *machine) keep(lease *Lease) {
	if lease == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.leases = append(m.leases, lease)
}

// check is what must be true after every step.
func (m *machine) check(t *rapid.T) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.overlap != "" {
		t.Fatal(m.overlap)
	}
	trusted := 0
	for _, lease := range m.leases {
		if lease.Valid(0) {
			trusted++
		}
		if lease.Valid(0) && lease.Context().Err() != nil {
			t.Fatal("a lease is valid and its context has ended")
		}
	}
	if trusted > 1 {
		t.Fatalf("%d leases are trusted at the same time", trusted)
	}
}

func (m *machine) any(t *rapid.T) *process {
	return m.process[rapid.IntRange(0, processes-1).Draw(t, "process")]
}

func (m *machine) acquire(t *rapid.T) {
	opts := []AcquireOption{WithTTL(rapid.SampledFrom([]time.Duration{10 * time.Second, time.Hour}).Draw(t, "ttl"))}
	if rapid.Bool().Draw(t, "plain") {
		opts = append(opts, WithoutKeepAlive())
	}
	lease, err := m.any(t).locker.TryAcquire(context.Background(), "x", opts...)
	m.keep(lease)
	wantKnown(t, err)
}

func (m *machine) wait(t *rapid.T) {
	limit := time.Duration(rapid.IntRange(1, 15_000).Draw(t, "ms")) * time.Millisecond
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	lease, err := m.any(t).locker.Acquire(ctx, "x")
	m.keep(lease)
	wantKnown(t, err)
}

// crowd has several calls of one process wait for the name and pass it on.
func (m *machine) crowd(t *rapid.T) {
	p := m.any(t)
	limit := time.Duration(rapid.IntRange(1, 15_000).Draw(t, "ms")) * time.Millisecond
	hold := time.Duration(rapid.SampledFrom([]int{0, 1, 3000}).Draw(t, "hold ms")) * time.Millisecond
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	var all sync.WaitGroup
	for range rapid.IntRange(2, 20).Draw(t, "calls") {
		all.Go(func() { m.visit(ctx, t, p.locker, hold) })
	}
	all.Wait()
}

// line has calls of all processes wait for the name.
func (m *machine) line(t *rapid.T) {
	limit := time.Duration(rapid.IntRange(1, 15_000).Draw(t, "ms")) * time.Millisecond
	hold := time.Duration(rapid.SampledFrom([]int{0, 1, 500}).Draw(t, "hold ms")) * time.Millisecond
	var all sync.WaitGroup
	for i := range rapid.IntRange(2, 12).Draw(t, "calls") {
		ctx, cancel := context.WithTimeout(context.Background(), limit/time.Duration(i%3+1))
		defer cancel()
		all.Go(func() { m.visit(ctx, t, m.process[i%processes].locker, hold) })
	}
	all.Wait()
}

// visit acquires, holds and releases the name.
func (m *machine) visit(ctx context.Context, t *rapid.T, locker *Locker, hold time.Duration) {
	lease, err := locker.Acquire(ctx, "x")
	m.keep(lease)
	wantKnown(t, err)
	if lease == nil {
		return
	}
	time.Sleep(hold)
	m.check(t)
	wantKnown(t, lease.Release(context.Background()))
}

func (m *machine) last(t *rapid.T) *Lease {
	if len(m.leases) == 0 {
		t.Skip("nothing was granted yet")
	}
	back := rapid.IntRange(1, min(3, len(m.leases))).Draw(t, "back")
	return m.leases[len(m.leases)-back]
}

func (m *machine) extend(t *rapid.T) {
	lease := m.last(t)
	ttl := rapid.SampledFrom([]time.Duration{time.Second, 10 * time.Second, time.Minute}).Draw(t, "ttl")
	err := lease.Extend(context.Background(), ttl)
	if err == nil && lease.Context().Err() != nil {
		t.Fatal("extended although its context has ended")
	}
	wantKnown(t, err)
}

func (m *machine) release(t *rapid.T) {
	wantKnown(t, m.last(t).Release(context.Background()))
}

func (m *machine) pass(t *rapid.T) {
	time.Sleep(time.Duration(rapid.IntRange(1, 12_000).Draw(t, "ms")) * time.Millisecond)
}

// suspend stops all three machines for a while: their timers stand still, the
// store's clock does not. No request is under way: it could outlast its
// tombstone, which lives by the store's clock.
func (m *machine) suspend(t *rapid.T) {
	m.quiet(t)
	slept := time.Duration(rapid.IntRange(1, 20).Draw(t, "seconds")) * time.Second
	for _, p := range m.process {
		p.mu.Lock()
		p.asleep += slept
		p.mu.Unlock()
	}
	m.store.Advance(slept)
}

func (m *machine) step(t *rapid.T) {
	p := m.any(t)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stepped += time.Duration(rapid.IntRange(-5000, 5000).Draw(t, "seconds")) * time.Second
}

func (m *machine) faults(t *rapid.T) {
	n := m.any(t).network
	m.mu.Lock()
	defer m.mu.Unlock()
	n.rate = rapid.SampledFrom([]float64{0, 0, 0.1, 0.5, 1}).Draw(t, "rate")
	n.delay = rapid.SampledFrom([]time.Duration{0, 0, time.Second, 8 * time.Second}).Draw(t, "delay")
}

// wipe loses all data at a moment when nothing is trusted: with a trusted lease
// it is a documented loss of exclusion. The fences must grow all the same. A
// request under way would find its tombstone wiped.
func (m *machine) wipe(t *rapid.T) {
	m.quiet(t)
	for _, lease := range m.leases {
		if lease.Valid(0) {
			t.Skip("a lease is trusted")
		}
	}
	m.store.Wipe()
}

func (m *machine) quiet(t *rapid.T) {
	if m.underWay.Load() > 0 {
		t.Skip("a request is under way")
	}
}

// settle heals everything: then the name must be had within a TTL.
func (m *machine) settle(t *rapid.T) {
	m.mu.Lock()
	for _, p := range m.process {
		p.network.rate, p.network.delay = 0, 0
	}
	m.mu.Unlock()
	for _, lease := range m.leases {
		lease.Release(context.Background())
	}
	time.Sleep(30 * time.Second) // clean-ups, and requests that were late
	lease, err := m.process[0].locker.TryAcquire(context.Background(), "x")
	if err != nil {
		t.Errorf("after all is healed and released: %v", err)
	}
	m.keep(lease)
	m.check(t)
	for _, p := range m.process {
		p.locker.Close(context.Background())
	}
	if state, _ := m.store.Inspect(context.Background(), "x"); len(state.Holders) > 0 {
		t.Errorf("after all lockers are closed it is held by %v", state.Holders)
	}
}

// wantKnown fails on an error that is none of those that are documented, or more
// than one of them.
func wantKnown(t *rapid.T, err error) {
	if err == nil {
		return
	}
	kinds := 0
	for _, kind := range []error{ErrHeld, ErrLost, ErrUnreachable, errReleased} {
		if errors.Is(err, kind) {
			kinds++
		}
	}
	if kinds == 0 && errors.Is(err, context.DeadlineExceeded) {
		kinds++
	}
	if kinds != 1 || errors.Is(err, driver.ErrWithdrawn) {
		t.Fatalf("the error is of %d kinds: %v", kinds, err)
	}
}
