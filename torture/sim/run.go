package sim

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"testing/synctest"
	"time"

	"github.com/holdfastlock/holdfast"
	"github.com/holdfastlock/holdfast/driver"
	"github.com/holdfastlock/holdfast/memstore"
	"github.com/holdfastlock/holdfast/once"
	"github.com/holdfastlock/holdfast/torture/history"
)

// Run simulates two minutes or so that are drawn from the seed, then heals
// everything and looks at what is left. It must be called in a testing/synctest
// bubble, and by one goroutine of the process at a time.
func Run(seed uint64, options Options) Result {
	w := newWorld(seed, options)
	for host := range hosts {
		w.boot(host, host+1)
	}
	w.nemesis(time.Minute + w.upTo(time.Minute))
	w.heal()
	w.progress()
	w.handOffs()
	w.orphan()
	w.finishSlots()
	w.close()
	slices.SortStableFunc(w.result.History, func(a, b history.Event) int {
		return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Process, b.Process), cmp.Compare(a.Client, b.Client), cmp.Compare(a.Op, b.Op))
	})
	return w.result
}

// seamed says whether this build lets a store bring the clock; see seam.patch.
var seamed = sync.OnceValue(func() bool {
	probe := &probe{Store: memstore.New()}
	locker, err := holdfast.New(probe, holdfast.Config{})
	if err != nil {
		panic(err) // the zero configuration is ready to use
	}
	if _, err := locker.TryAcquire(context.Background(), "probe"); err != nil {
		panic(err) // nobody else has this store
	}
	_ = locker.Close(context.Background()) // memstore can't fail
	return probe.asked
})

type probe struct {
	*memstore.Store
	asked bool
}

// Clock and Random are asked for by the seam.
func (p *probe) Clock() (at time.Time, wall, boot time.Duration) {
	p.asked = true
	return time.Now(), 0, 0
}

func (p *probe) Random() float64 { return 0 }

// heal ends all faults and has the clients finish.
func (w *world) heal() {
	time.Sleep(longest) // those that end by themselves
	for _, p := range w.processes {
		p.line.worsen(0, 0)
		p.line.deafen(false)
	}
	for _, p := range w.processes {
		p.finish()
	}
	time.Sleep(10 * time.Second) // clean-ups of acquires, and requests that were late
	w.check()
}

// progress has a process acquire every name. Only the dead may have left
// something that is in its way, until its TTL ends; and, where the store has lost
// the tombstones too, a request that came late.
func (w *world) progress() {
	for _, name := range append([]string{job}, names...) {
		holder := w.holder(name)
		if holder.Token != "" && !w.died(holder.Owner()) && !w.lossy {
			w.violate("left", "%s is held by %s, of which no lease is left, for %v", name, holder.Owner(), holder.Left)
		}
		time.Sleep(holder.Left)
		p := w.processes[0]
		lease, err := p.locker.TryAcquire(context.Background(), name)
		if err != nil {
			w.violate("progress", "%s, after everything is healed and over: %v", name, err)
			continue
		}
		if err := lease.Release(context.Background()); err != nil {
			w.violate("progress", "release of %s, after everything is healed: %v", name, err)
		}
	}
}

func (w *world) died(name string) bool {
	return slices.ContainsFunc(w.graves, func(p *process) bool { return p.name == name })
}

// soon is how long a waiter may take to have a name that was released.
const soon = time.Second

// patience is how long somebody waits who must not wait so long.
const patience = 2 * time.Minute

// waiting acquires a name in the background. What arrives is nil if it failed.
func waiting(locker *holdfast.Locker, name string) <-chan *holdfast.Lease {
	granted := make(chan *holdfast.Lease, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		lease, _ := locker.Acquire(ctx, name) // to wait in vain is to be late
		granted <- lease
	}()
	return granted
}

// handOffs has one process release a name about when another begins to wait for
// it; now and then the inboxes hear nothing at that moment.
func (w *world) handOffs() {
	holder, waiter := w.processes[0].locker, w.processes[1].locker
	for round := range 5 {
		lease, err := holder.Acquire(context.Background(), names[0])
		if err != nil {
			w.violate("progress", "%s, after everything is healed: %v", names[0], err)
			return
		}
		granted := waiting(waiter, names[0])
		time.Sleep(w.upTo(10 * time.Millisecond))
		restore := func() {}
		if round%2 == 1 {
			restore = w.memory.CutInboxes()
		}
		released := time.Now()
		_ = lease.Release(context.Background()) // or the waiter comes late
		restore()
		lease = <-granted
		if took := time.Since(released); took > soon || lease == nil {
			w.violate("hand-off", "%s was released, and a waiter had it after %v", names[0], took)
		}
		if lease != nil {
			_ = lease.Release(context.Background()) // or the next round fails
		}
	}
}

// orphan has a holder and the first of those who wait stop at the same time: the
// next has to find out.
func (w *world) orphan() {
	const short = 2 * time.Second
	holder, first, next := w.processes[0].locker, w.processes[1], w.processes[2].locker
	began := time.Now()
	if _, err := holder.Acquire(context.Background(), names[1], holdfast.WithTTL(short), holdfast.WithoutKeepAlive()); err != nil {
		w.violate("progress", "%s, after everything is healed: %v", names[1], err)
		return
	}
	stopped := waiting(first.locker, names[1])
	time.Sleep(50 * time.Millisecond)
	granted := waiting(next, names[1])
	time.Sleep(50 * time.Millisecond)
	synctest.Wait()
	w.mu.Lock()
	first.stop()
	w.mu.Unlock()
	lease := <-granted
	if took := time.Since(began); took > short+2*driver.Claim+soon || lease == nil {
		w.violate("hand-off", "the holder of %s and the first who waited stopped, and the next had it after %v", names[1], took)
	}
	first.resume(0)
	if lease != nil {
		_ = lease.Release(context.Background()) // or the first is late
	}
	if lease = <-stopped; lease != nil {
		_ = lease.Release(context.Background()) // or it is left
	}
}

// finishSlots has every slot that was begun come to its end.
func (w *world) finishSlots() {
	for _, text := range slices.Sorted(maps.Keys(w.slots)) {
		result, err := once.Run(context.Background(), w.processes[0].locker, job, once.Slot(text),
			func(context.Context, once.Attempt) error { return nil }, once.StandBy(once.Forever))
		if err != nil || result.Outcome == 0 || result.Outcome == once.Running || result.Outcome == once.Late {
			w.violate("slot", "slot %s, after everything is healed: %v, %v", text, result.Outcome, err)
		}
		if s := w.slots[text]; result.Outcome == once.Ran && s.done > 0 && !w.lossy {
			w.violate("slot", "slot %s runs again after it was done", text)
		}
	}
}

// close ends the world, each locker while it is acquiring something. Nothing may
// be left.
func (w *world) close() {
	for i, p := range w.processes {
		name := append([]string{job}, names...)[i]
		w.requests.Go(func() { _, _ = p.locker.Acquire(context.Background(), name, holdfast.WithTTL(time.Hour)) })
		time.Sleep(w.upTo(6 * time.Millisecond))
		if err := p.locker.Close(context.Background()); err != nil {
			w.violate("left", "closing the locker of %s: %v", p.name, err)
		}
	}
	for _, p := range w.graves {
		p.bury()
	}
	w.requests.Wait()
	for _, name := range append([]string{job}, names...) {
		if holder := w.holder(name); holder.Token != "" {
			w.violate("left", "after all lockers are closed, %s is held by %s", name, holder.Owner())
		}
	}
	for _, p := range append(w.processes, w.graves...) {
		if left := len(p.line.waiters) + len(p.line.inboxes); left > 0 {
			w.violate("left", "%s still listens in %d places", p.name, left)
		}
	}
}
