package sim

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/holdfastlock/holdfast"
	"github.com/holdfastlock/holdfast/torture/history"
)

// process is one process on a machine of its own, with its clocks and its line to
// the store.
type process struct {
	world   *world
	name    string // host and incarnation, as in history
	start   time.Time
	drift   float64 // how much faster its clocks run than the store's
	line    *line
	locker  *holdfast.Locker
	clients []*client
	work    sync.WaitGroup // the clients, and what carries messages to them

	mu      sync.Mutex
	ops     int64
	stopped chan struct{} // open while the process does not run; nil otherwise
	queue   int           // how many wait for it to run again
	dead    bool
	ahead   time.Duration // time that has passed for all machines but not in the bubble
	asleep  time.Duration // how long the machine was suspended
	stepped time.Duration // of the wall clock
}

func newProcess(w *world, host, incarnation int) *process {
	p := &process{world: w, name: fmt.Sprintf("h%d.%d", host, incarnation), start: time.Now()}
	p.drift = []float64{0, 0.009, -0.009, 0.004, -0.004}[w.random.IntN(5)]
	p.line = newLine(p)
	config := holdfast.Config{
		Owner: p.name, TTL: ttl, StoreTimeout: 2 * time.Second,
		Events: holdfast.Events{Extended: p.extended, Lost: p.lost},
	}
	locker, err := holdfast.New(p.line.locks(), config)
	if err != nil {
		panic(err) // the configuration above is wrong
	}
	p.locker = locker
	return p
}

// clock is the process's clock, which does not return while the process is
// stopped.
func (p *process) clock() (at time.Time, wall, boot time.Duration) {
	p.gate()
	p.mu.Lock()
	defer p.mu.Unlock()
	ran := p.counts(time.Since(p.start)) + p.ahead
	return p.start.Add(ran - p.asleep), ran + p.stepped, time.Hour + ran
}

// counts returns what the machine's clocks count while d passes.
func (p *process) counts(d time.Duration) time.Duration {
	return d + time.Duration(float64(d)*p.drift)
}

// gate returns when the process runs. Those who wait go on one after the other:
// what happens at the same moment has no order.
func (p *process) gate() {
	for {
		p.mu.Lock()
		stopped, place := p.stopped, p.queue
		p.queue++
		p.mu.Unlock()
		if stopped == nil {
			return
		}
		<-stopped
		time.Sleep(time.Duration(place) * time.Microsecond)
	}
}

// stop keeps the process from running. Nothing of it is under way but calls to
// the store and pauses: the caller has made sure.
func (p *process) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped, p.queue = make(chan struct{}), 0
}

// resume lets it run again; if its machine was suspended meanwhile, its clocks
// stood still but for the boot clock.
func (p *process) resume(suspended time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dead || p.stopped == nil {
		return
	}
	p.asleep += p.counts(suspended)
	close(p.stopped)
	p.stopped = nil
}

func (p *process) runs() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stopped == nil
}

func (p *process) isDead() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dead
}

// kill ends the process as SIGKILL does: it never runs again, and what it had
// sent still arrives.
func (p *process) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dead = true
	if p.stopped == nil {
		p.stopped = make(chan struct{})
	}
}

// bury lets the goroutines of a dead process end. The world is over by then, and
// nothing they send arrives.
func (p *process) bury() {
	p.mu.Lock()
	close(p.stopped)
	p.stopped = nil
	p.mu.Unlock()
	p.finish()
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	_ = p.locker.Close(ended) // its leases are for nobody to release
}

// sleep suspends the machine for a time that has not passed for anybody here.
func (p *process) sleep(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ahead += d
	p.asleep += d
}

// step steps its wall clock.
func (p *process) step(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stepped += d
}

// finish ends the clients and waits for them: one after the other, since what
// happens at the same moment has no order.
func (p *process) finish() {
	for _, c := range p.clients {
		c.end()
		time.Sleep(time.Millisecond)
	}
	p.work.Wait()
}

// nextOp returns the number of an operation.
func (p *process) nextOp() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ops++
	return p.ops
}

// extended and lost are told by the locker.
func (p *process) extended(e holdfast.Event) {
	p.world.extended(p, e)
}

func (p *process) lost(e holdfast.Event) {
	p.world.add(history.Event{Kind: history.Lost, Process: p.name, Name: e.Name, Fence: e.Fence, Note: e.Err.Error()})
}
