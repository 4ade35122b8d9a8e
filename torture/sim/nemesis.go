package sim

import (
	"slices"
	"testing/synctest"
	"time"

	"github.com/holdfastlock/holdfast/torture/history"
)

const (
	hosts   = 3
	clients = 3 // of each process
	// longest is how long a process is stopped, or the store is down, at the
	// most: longer than most leases last.
	longest = 25 * time.Second
)

// nemesis makes one fault after the other until the time is over.
func (w *world) nemesis(lasts time.Duration) {
	faults := []func(){
		w.badLine, w.badLine, w.goodLine, w.deafLine, w.cutInboxes, w.cut, w.freeze, w.freeze, w.suspendOne, w.suspendAll,
		w.stepWall, w.kill, w.storeDown, w.wipe, w.stepStore,
	}
	if !w.seamed {
		faults = faults[:8] // and those that need no clocks:
		faults = append(faults, w.kill, w.storeDown, w.wipe, w.stepStore)
	}
	for time.Since(w.start) < lasts {
		time.Sleep(w.upTo(6 * time.Second))
		synctest.Wait()
		w.check()
		faults[w.random.IntN(len(faults))]()
		synctest.Wait()
		w.check()
	}
}

func (w *world) upTo(d time.Duration) time.Duration {
	return time.Duration(w.random.Int64N(int64(d)))
}

func (w *world) any() *process { return w.processes[w.random.IntN(len(w.processes))] }

func (w *world) fault(kind, target string, lasts time.Duration) {
	e := history.Event{Kind: history.Fault, Process: "nemesis", Fault: kind, Name: target}
	if lasts > 0 {
		e.Note = lasts.String()
	}
	w.add(e)
}

// badLine has some requests and replies of a process lost or late.
func (w *world) badLine() {
	p := w.any()
	loss := []float64{0, 0.1, 0.3, 0.6}[w.random.IntN(4)]
	late := []time.Duration{0, 300 * time.Millisecond, 1500 * time.Millisecond, 8 * time.Second}[w.random.IntN(4)]
	w.fault("bad line", p.name, 0)
	p.line.worsen(loss, late)
}

// cut loses everything.
func (w *world) cut() {
	p := w.any()
	w.fault("line cut", p.name, 0)
	p.line.worsen(1, 0)
}

func (w *world) goodLine() { w.any().line.worsen(0, 0) }

// deafLine loses the messages to waiters for a while, and nothing else.
func (w *world) deafLine() {
	p, lasts := w.any(), w.upTo(longest)
	w.fault("subscription cut", p.name, lasts)
	p.line.deafen(true)
	w.later(lasts, func() { p.line.deafen(false) })
}

// cutInboxes breaks the connections that carry messages, and the store sees it:
// waiters whose turn it is lose their places.
func (w *world) cutInboxes() {
	lasts := w.upTo(longest)
	w.fault("inboxes cut", "", lasts)
	w.later(lasts, w.memory.CutInboxes())
}

// later calls f after d, unless the time of faults ends before.
func (w *world) later(d time.Duration, f func()) {
	w.requests.Go(func() {
		time.Sleep(d)
		f()
	})
}

// freeze stops a process as SIGSTOP does: its clocks go on.
func (w *world) freeze() { w.stop("frozen", false) }

// suspendOne stops a machine: all its clocks but one stand still.
func (w *world) suspendOne() { w.stop("suspended", true) }

func (w *world) stop(kind string, suspended bool) {
	p, lasts := w.any(), w.upTo(longest)
	w.mu.Lock()
	stopped := p.runs()
	if stopped {
		for _, tenures := range w.tenures {
			for _, t := range tenures {
				if t.process == p {
					t.until = time.Now().Add(t.left(time.Now()))
				}
			}
		}
		p.stop()
	}
	w.mu.Unlock()
	if !stopped {
		return
	}
	w.fault(kind, p.name, lasts)
	w.later(lasts, func() {
		if !suspended {
			p.resume(0)
		} else {
			p.resume(lasts)
		}
	})
}

// suspendAll stops all machines but the store's: for them no time passes. No
// request is under way: it could outlast its tombstone, which lives by the
// store's clock.
func (w *world) suspendAll() {
	if w.underWay.Load() > 0 {
		return
	}
	slept := w.upTo(longest)
	w.fault("all suspended", "", slept)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.processes {
		p.sleep(slept)
	}
	for _, tenures := range w.tenures {
		for _, t := range tenures {
			t.until = t.until.Add(-slept)
		}
	}
	w.memory.Advance(slept)
}

// stepWall steps the wall clock of a machine.
func (w *world) stepWall() {
	p := w.any()
	step := time.Duration(w.random.IntN(10_000)-5_000) * time.Second
	w.fault("wall clock stepped", p.name, 0)
	p.step(step)
}

// kill ends a process and starts another in its place.
func (w *world) kill() {
	host := w.random.IntN(hosts)
	p := w.processes[host]
	w.fault("killed", p.name, 0)
	w.mu.Lock()
	p.kill()
	w.graves = append(w.graves, p)
	w.mu.Unlock()
	w.later([]time.Duration{0, w.upTo(longest)}[w.random.IntN(2)], p.line.hangUp) // when the store sees it
	w.boot(host, len(w.graves)+1)
}

// storeDown makes the store answer nobody for a while.
func (w *world) storeDown() {
	lasts := w.upTo(longest)
	w.mu.Lock()
	was := w.down
	w.down = true
	w.mu.Unlock()
	if was {
		return
	}
	w.fault("store down", "", lasts)
	w.later(lasts, w.storeUp)
}

func (w *world) storeUp() {
	w.mu.Lock()
	w.down = false
	processes := slices.Clone(w.processes)
	w.mu.Unlock()
	for _, p := range processes {
		p.line.reconnect()
	}
}

// wipe loses all that the store has. Its fences grow all the same, unless its
// clock goes back past the last grant before or after, which is a documented loss
// and does not happen here.
func (w *world) wipe() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.storeIsPast(0, func(f *fences) int64 { return f.stored }) || !w.mayLose() {
		return
	}
	for _, known := range w.fences {
		known.lost = known.stored
	}
	w.note(history.Event{Kind: history.Fault, Process: "nemesis", Fault: "store wiped"})
	w.memory.Wipe()
	w.storeStep += time.Millisecond
	clear(w.slots)
}

// storeIsPast says whether the store's clock, once stepped, is past a fence of
// every name. The caller holds the mutex.
func (w *world) storeIsPast(step time.Duration, fence func(*fences) int64) bool {
	now := time.Now().Add(w.storeStep + step)
	for _, known := range w.fences {
		if now.UnixMicro() <= fence(known) {
			return false
		}
	}
	return true
}

// stepStore steps the clock of the store. Back, leases last longer than their
// holders think; forward, they end sooner.
func (w *world) stepStore() {
	step := w.upTo(20*time.Second) - 10*time.Second
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.storeIsPast(step, func(f *fences) int64 { return f.lost }) || step > 0 && !w.mayLose() {
		return
	}
	w.note(history.Event{Kind: history.Fault, Process: "nemesis", Fault: "store's clock stepped", Note: step.String()})
	w.memory.Advance(step)
	w.storeStep += step
}

// mayLose says whether leases may get lost in the store now. With a trusted lease
// that is a documented loss, which happens in some worlds only; in the others
// nothing may be trusted, nor may a request be under way, which would find its
// tombstone gone. The caller holds the mutex.
func (w *world) mayLose() bool {
	now := time.Now()
	if w.lossy {
		w.lastLoss = now
		for name, tenures := range w.tenures {
			holder := w.holder(name)
			for _, t := range tenures {
				if t.lease.Token() == holder.Token && !t.process.isDead() {
					t.excuse(now)
				}
			}
		}
		return true
	}
	for _, tenures := range w.tenures {
		for _, t := range tenures {
			if t.trusted(now) {
				return false
			}
		}
	}
	for _, p := range w.processes {
		if !p.runs() { // what it was answered it has yet to hear
			return false
		}
	}
	return w.unheard.Load() == 0
}
