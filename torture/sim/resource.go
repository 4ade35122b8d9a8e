package sim

import (
	"slices"
	"time"

	"github.com/holdfastlock/holdfast"
	"github.com/holdfastlock/holdfast/torture/history"
)

// register is a resource outside the lock: a list to which holders add, by
// reading it and writing it back longer. It is kept twice, once behind a check of
// the fence and once without.
type register struct {
	fence     int64 // the largest it has seen
	guarded   []int64
	unguarded []int64
}

// work uses the lease for a while. It says whether the process lives.
func (c *client) work(lease *holdfast.Lease, op int64) bool {
	for range c.random.IntN(4) {
		var alive bool
		switch c.random.IntN(4) {
		case 0:
			alive = c.extend(lease, op)
		case 1:
			alive = c.pause(c.upTo(12 * time.Second))
		default:
			alive = c.addTo(lease, op)
		}
		if !alive || lease.Context().Err() != nil {
			return alive
		}
	}
	return true
}

// extend makes the lease last longer.
func (c *client) extend(lease *holdfast.Lease, op int64) bool {
	p := c.process
	ctx, cancel := c.context()
	defer cancel()
	event := history.Event{
		Process: p.name, Client: c.number, Op: p.nextOp(), Lease: op, Do: history.Extend, Name: lease.Name(), Fence: lease.Fence(),
	}
	p.world.call(event)
	lasts := time.Second + c.upTo(time.Minute)
	p.world.extending(lease, lasts)
	err := lease.Extend(ctx, lasts)
	p.world.extending(lease, 0)
	ended := lease.Context().Err() != nil
	if err == nil && ended {
		p.world.violate("extend", "%s: extended by %s although its context has ended", lease.Name(), p.name)
	}
	p.gate()
	if p.isDead() {
		return false
	}
	c.answered(event, err)
	return true
}

// extending notes by how much an extension that begins makes a lease last; 0 when
// it has ended.
func (w *world) extending(lease *holdfast.Lease, lasts time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, t := range w.tenures[lease.Name()] {
		if t.lease == lease {
			t.asked = lasts
		}
	}
}

// addTo reads the register, thinks, looks at its lease, and writes. What it
// writes is on its way for a while, in which the lease may end.
func (c *client) addTo(lease *holdfast.Lease, op int64) bool {
	w := c.process.world
	event := history.Event{
		Process: c.process.name, Client: c.number, Lease: op, Name: lease.Name(), Fence: lease.Fence(),
	}
	guarded, unguarded, ok := w.read(event)
	if !ok {
		return true
	}
	if !c.pause(c.upTo(4 * time.Second)) {
		return false
	}
	if lease.Context().Err() != nil {
		return true
	}
	time.Sleep(c.upTo(2 * time.Second)) // frozen or not: it has been sent
	w.write(event, guarded, unguarded)
	return c.pause(c.upTo(10 * time.Millisecond))
}

// read returns what the register holds. The guarded one remembers the fence.
func (w *world) read(e history.Event) (guarded, unguarded []int64, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.registers[e.Name]
	e.Do = history.Read
	if ok = w.admit(r, e); !ok {
		return nil, nil, false
	}
	return slices.Clone(r.guarded), slices.Clone(r.unguarded), true
}

// write writes both lists longer by the fence.
func (w *world) write(e history.Event, guarded, unguarded []int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.registers[e.Name]
	if !slices.Equal(unguarded, r.unguarded) {
		w.result.LostUpdates++
	}
	r.unguarded = append(unguarded, e.Fence)
	e.Do = history.Write
	if !w.admit(r, e) {
		return
	}
	if !slices.Equal(guarded, r.guarded) {
		w.broken("lost update", "%s: fence %d overwrote what others have written", e.Name, e.Fence)
	}
	r.guarded = append(guarded, e.Fence)
}

// admit lets pass who shows a fence that is not older than the largest seen.
func (w *world) admit(r *register, e history.Event) bool {
	e.Kind = history.Accepted
	if e.Fence < r.fence {
		e.Kind = history.Stale
	}
	r.fence = max(r.fence, e.Fence)
	w.note(e)
	return e.Kind == history.Accepted
}
