package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfastlock/holdfast"
	"github.com/holdfastlock/holdfast/driver"
	"github.com/holdfastlock/holdfast/memstore"
	"github.com/holdfastlock/holdfast/torture/history"
)

// ttl is how long most leases last.
const ttl = 10 * time.Second

// names are the locks that are competed for.
var names = []string{"a", "b"}

// Options change a run.
type Options struct {
	// Break returns the store to be used in front of memstore; nil for memstore
	// itself. For tests of the simulator.
	Break func(Store) Store
}

// Result is what a run came to.
type Result struct {
	History    []history.Event
	Violations []Violation
	Operations int            // calls that returned
	Faults     map[string]int // by kind
	// Excused is how often two leases were believed after the store had lost its
	// data or its clock had jumped: documented losses.
	Excused int
	// LostUpdates is how many writes were lost at the resource that checks no
	// fence.
	LostUpdates int
	// HandedOn is how often the store handed a name on to a waiter, PassedOn how
	// often a process did in memory.
	HandedOn, PassedOn int
}

// Violation is a promise that was broken.
type Violation struct {
	At   time.Duration // since the beginning
	Kind string
	Text string
}

// world is one run. Its mutex may be held while a lease of a process that runs is
// looked at, and a process is stopped only under it: a look at the lease of a
// stopped process would not return.
type world struct {
	seed   uint64
	start  time.Time
	memory *memstore.Store
	store  Store      // memory, or what a test put in front of it
	random *rand.Rand // of the nemesis
	lossy  bool       // the store loses leases that are held, too
	queues bool       // the store keeps queues
	seamed bool

	underWay atomic.Int32   // requests that have not arrived yet
	unheard  atomic.Int32   // requests of which the reply has not arrived yet, either
	requests sync.WaitGroup // all that has been sent

	drawing sync.Mutex
	streams uint64 // of random numbers handed out

	mu        sync.Mutex
	down      bool
	processes []*process
	tenures   map[string][]*tenure
	fences    map[string]*fences
	registers map[string]*register
	slots     map[string]*slot
	active    map[int64]bool // fences of the runs that have not come to their end
	runFence  int64          // of the last run that began
	lastLoss  time.Time
	graves    []*process    // those that are dead
	storeStep time.Duration // of the store's clock
	result    Result
}

// fences are what is known of the fences of one name.
type fences struct {
	stored   int64 // the largest that the store has granted
	lost     int64 // the largest that the store had granted when it lost its data
	returned int64 // the largest that a caller has been told
	seen     map[int64]bool
}

func newWorld(seed uint64, options Options) *world {
	w := &world{
		seamed: seamed(), processes: make([]*process, hosts),
		seed: seed, start: time.Now(), memory: memstore.New(),
		random:  rand.New(rand.NewPCG(seed, 0)),
		tenures: map[string][]*tenure{}, fences: map[string]*fences{}, registers: map[string]*register{},
		slots: map[string]*slot{}, active: map[int64]bool{},
	}
	w.result.Faults = map[string]int{}
	w.store = w.memory
	if options.Break != nil {
		w.store = options.Break(w.memory)
	}
	w.lossy = w.random.IntN(4) == 0
	w.queues = w.random.IntN(4) > 0
	for _, name := range append([]string{job}, names...) {
		w.fences[name] = &fences{seen: map[int64]bool{}}
		w.registers[name] = &register{}
	}
	return w
}

// newRandom returns a stream of random numbers for one that draws alone.
func (w *world) newRandom() *rand.Rand {
	w.drawing.Lock()
	defer w.drawing.Unlock()
	w.streams++
	return rand.New(rand.NewPCG(w.seed, w.streams))
}

// Random returns a number from 0 to 1 for the pauses of a locker. It depends on
// the moment, not on who asks first.
func (w *world) Random() float64 {
	return rand.New(rand.NewPCG(w.seed, uint64(time.Since(w.start)))).Float64()
}

func (w *world) isDown() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.down
}

// add puts an event of now into the history.
func (w *world) add(e history.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.note(e)
}

// note is add for those who hold the mutex.
func (w *world) note(e history.Event) {
	e.At = int64(time.Since(w.start))
	if e.Kind == history.Return {
		w.result.Operations++
	}
	if e.Kind == history.Fault {
		w.result.Faults[e.Fault]++
	}
	w.result.History = append(w.result.History, e)
}

func (w *world) violate(kind, format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.broken(kind, format, args...)
}

// broken is violate for those who hold the mutex.
func (w *world) broken(kind, format string, args ...any) {
	w.result.Violations = append(w.result.Violations, Violation{time.Since(w.start), kind, fmt.Sprintf(format, args...)})
}

// boot starts a process and its clients.
func (w *world) boot(host, incarnation int) *process {
	p := newProcess(w, host, incarnation)
	w.mu.Lock()
	w.processes[host] = p
	w.mu.Unlock()
	for i := range clients {
		c := newClient(p, i+1)
		p.clients = append(p.clients, c)
		p.work.Go(c.run)
	}
	return p
}

// tenure is a lease and what is believed of it.
type tenure struct {
	process *process
	lease   *holdfast.Lease
	ttl     time.Duration
	called  time.Time     // when it was asked for
	asked   time.Duration // by how much an extension that is under way makes it last
	// until is when a process that is stopped will stop trusting it.
	until time.Time
	// excused is until when the store may have another holder: it has lost its
	// data, or its clock has jumped.
	excused time.Time
	// dubious is since when its context is alive although it is not trusted.
	dubious time.Time
}

// trusted says whether its process would act on it. The caller holds the world's
// mutex.
func (t *tenure) trusted(now time.Time) bool {
	switch {
	case t.process.isDead():
		return false
	case !t.process.runs():
		return now.Before(t.until)
	default:
		return t.lease.Valid(0)
	}
}

// left returns how long a lease is trusted yet, by the clocks of its process; up to
// a millisecond less.
func left(lease *holdfast.Lease) time.Duration {
	low, high := time.Duration(0), 2*time.Hour
	for high-low > time.Millisecond {
		if middle := (low + high) / 2; lease.Valid(middle) {
			low = middle
		} else {
			high = middle
		}
	}
	return low
}

// excuse excuses it for a loss: what was granted or extended until then is
// believed. The caller holds the world's mutex.
func (t *tenure) excuse(loss time.Time) {
	t.excused = loss.Add(max(t.ttl, t.asked, t.left(loss)+time.Millisecond))
}

// left returns how long it is trusted yet, by the bubble's clock. The caller holds
// the world's mutex.
func (t *tenure) left(now time.Time) time.Duration {
	if !t.process.runs() {
		return t.until.Sub(now)
	}
	return time.Duration(float64(left(t.lease)) / (1 + t.process.drift))
}

// passFor is longer than a locker passes on in memory what it was granted.
const passFor = 10 * time.Millisecond

// granted notes a lease at the moment of its grant.
func (w *world) granted(t *tenure, before int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	name, fence := t.lease.Name(), t.lease.Fence()
	known := w.fences[name]
	hit := !t.called.After(w.lastLoss.Add(passFor)) // what was lost may have been passed on to it
	if fence <= before && !hit {
		w.broken("fence order", "%s: %s was granted fence %d after %d", name, t.process.name, fence, before)
	}
	if known.seen[fence] {
		w.broken("fence repeated", "%s: fence %d was granted twice", name, fence)
	}
	if fence == known.returned+1 { // no grant of the store follows so closely
		w.result.PassedOn++
	}
	known.seen[fence] = true
	known.returned = max(known.returned, fence)
	if hit {
		t.excuse(w.lastLoss)
	}
	w.tenures[name] = append(w.tenures[name], t)
	w.exclusion(name)
}

// stored notes what the store has granted, whether the caller hears of it or not.
func (w *world) stored(req driver.AcquireRequest, result driver.AcquireResult) {
	w.mu.Lock()
	defer w.mu.Unlock()
	known := w.fences[req.Name]
	known.stored = max(known.stored, req.Last(result.Fence))
}

// exclusion looks for two leases that are trusted at the same time. The caller
// holds the mutex.
func (w *world) exclusion(name string) {
	now := time.Now()
	var alive, trusted []*tenure
	excused := 0
	for _, t := range w.tenures[name] {
		switch {
		case t.trusted(now):
			trusted = append(trusted, t)
			if now.Before(t.excused) {
				excused++
			}
			alive = append(alive, t)
		case t.lease.Context().Err() == nil && !t.process.isDead():
			alive = append(alive, t)
		}
	}
	w.tenures[name] = alive
	if len(trusted) < 2 {
		return
	}
	if len(trusted)-excused < 2 && excused > 0 {
		w.result.Excused++
		return
	}
	a, b := trusted[0], trusted[len(trusted)-1]
	w.broken("exclusion", "%s is trusted by %s (fence %d) and %s (fence %d)",
		name, a.process.name, a.lease.Fence(), b.process.name, b.lease.Fence())
}

// slowest is how late a locker may notice that a lease is over while its process
// runs: its timers follow one clock, the lease another.
const slowest = 50 * time.Millisecond

// check looks at everything. Nothing happens meanwhile.
func (w *world) check() {
	runs, err := w.memory.Runs(context.Background(), job, driver.MaxRuns)
	if err != nil {
		panic(err) // memstore fails only when asked to
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, run := range runs {
		if run.Phase == driver.Done && w.active[run.Fence] {
			w.broken("slot", "slot %s is done, although the run of fence %d goes on", run.Slot, run.Fence)
		}
	}
	now := time.Now()
	for _, name := range names {
		w.exclusion(name)
		for _, t := range w.tenures[name] {
			switch {
			case !t.process.runs() || t.lease.Valid(0) || t.lease.Context().Err() != nil:
				t.dubious = time.Time{}
			case t.dubious.IsZero():
				t.dubious = now
			case now.Sub(t.dubious) > time.Second+slowest: // the look at the clocks
				w.broken("context", "%s: the context of %s (fence %d) has not ended with its lease",
					name, t.process.name, t.lease.Fence())
			}
		}
	}
}

// extended notes that a lease is trusted for longer.
func (w *world) extended(p *process, e holdfast.Event) {
	w.add(history.Event{Kind: history.Extended, Process: p.name, Name: e.Name, Fence: e.Fence})
}
