package sqlitestore

import (
	"hash/fnv"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/holdfastlock/holdfast/driver"
)

// wakes lets a waiter in one process notice that another process let go of a
// name. Whoever holds a name also has its range of the side file; a waiter asks
// the kernel for the range and sleeps. The one that is given the range is the
// candidate: it keeps the range while it tries to acquire the name, so that one
// release wakes one waiter, and if it wins, it has the range already. If it loses
// or does nothing, it lets go, and the next one is woken.
//
// None of this decides who holds a name: the range only says when to look again.
// Where a holder has no range (it came past the candidate, or died with its
// lease still running), a waiter finds the range free and the name held; it then
// looks again after a pause that grows.
type wakes struct {
	ranges ranges

	mu      sync.Mutex
	places  map[string]*place // names that somebody here holds, tries or waits for
	blocked int               // goroutines in the kernel
	closed  bool
}

// place is what this process has to do with a name. Guarded by wakes.mu.
type place struct {
	offset   int64 // of the range
	owned    bool  // we have the range
	blocked  bool  // a goroutine waits in the kernel for the range
	token    string
	attempts int // acquires under way
	waiters  map[chan struct{}]struct{}

	// The timer runs until the end of our lease; without a lease, of our
	// candidacy; without that, of the pause before we ask for the range again.
	timer *time.Timer
	due   time.Time
	pause time.Duration
}

const (
	maxBlocked = 64 // each costs a thread; names beyond ask again after a pause

	candidacy = 50 * time.Millisecond // enough to begin an attempt
	turnPause = time.Millisecond      // after a release here, for those who wait elsewhere
	minPause  = 50 * time.Millisecond
	maxPause  = time.Second
)

func newWakes(r ranges) *wakes { return &wakes{ranges: r, places: map[string]*place{}} }

// Subscribe implements driver.Notifier. On Linux a release in another process
// wakes as one in this process does, and so does the death of a holder, though
// its lease still runs. Elsewhere only releases in this process do. One release
// wakes one waiter at a time, and the next one when that did not take the name.
//
// While a name is waited for, at most one goroutine for it, and 64 in all, wait
// in the kernel. Such a goroutine belongs to the Store, and ends when the holder
// lets go or dies.
func (s *Store) Subscribe(name string) (wake <-chan struct{}, stop func()) {
	waiter := make(chan struct{}, 1)
	waiter <- struct{}{} // active from now on
	s.wakes.join(name, waiter)
	return waiter, func() { s.wakes.leave(name, waiter) }
}

func (w *wakes) join(name string, waiter chan struct{}) {
	w.visit(name, func(p *place) {
		p.waiters[waiter] = struct{}{}
		w.ask(name, p)
	})
}

func (w *wakes) leave(name string, waiter chan struct{}) {
	w.visit(name, func(p *place) { delete(p.waiters, waiter) })
}

// beforeAttempt takes the range, if nobody has it, before the name is acquired,
// so that no holder is ever without it who could have had it.
func (w *wakes) beforeAttempt(name string) {
	w.visit(name, func(p *place) {
		p.attempts++
		if !p.owned && !p.blocked {
			p.owned = w.ranges.tryLock(p.offset)
		}
	})
}

func (w *wakes) afterAttempt(req driver.AcquireRequest, result driver.AcquireResult) {
	w.visit(req.Name, func(p *place) {
		p.attempts--
		switch {
		case result.Granted:
			w.keep(req.Name, p, req.Token, req.TTL)
		case p.owned && p.token == "" && p.attempts == 0:
			w.standBack(req.Name, p, result.State)
		default:
			w.ask(req.Name, p)
		}
	})
}

// extend notes that our lease lasts at least ttl from now. It ignores others:
// the answer may come after the release of the same lease.
func (w *wakes) extend(name, token string, ttl time.Duration) {
	w.visit(name, func(p *place) {
		if p.token == token {
			w.keep(name, p, token, ttl)
		}
	})
}

// release notes that the token does not hold the name any more.
func (w *wakes) release(name, token string) {
	w.visit(name, func(p *place) {
		represented := p.owned
		if p.token == token {
			p.token = ""
			w.letGo(p)
			w.after(name, p, turnPause)
		}
		if p.token == "" && !represented {
			p.wake() // somebody else has the range, so that nothing else would
		}
	})
}

// visit runs change on the name's place, and forgets the place if nothing is
// left there.
func (w *wakes) visit(name string, change func(*place)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.visitLocked(name, change)
}

func (w *wakes) visitLocked(name string, change func(*place)) {
	if w.closed {
		return
	}
	p := w.places[name]
	if p == nil {
		p = &place{offset: offset(name), waiters: map[chan struct{}]struct{}{}}
		w.places[name] = p
	}
	change(p)
	if p.token != "" || p.attempts > 0 {
		return
	}
	if len(p.waiters) == 0 {
		w.letGo(p)
		p.stopTimer()
		if !p.blocked {
			delete(w.places, name)
		}
	}
}

// offset returns where in the side file the range of the name is. Two names with
// the same one wake each other's waiters.
func offset(name string) int64 {
	h := fnv.New64a()
	h.Write([]byte(name))
	return int64(h.Sum64() >> 2) // the kernel's offsets have 63 bits
}

// ask asks for the range on behalf of our lease or of our waiters: whoever gets
// it is woken when it is ours.
func (w *wakes) ask(name string, p *place) {
	switch {
	case p.owned, p.blocked, p.token == "" && len(p.waiters) == 0:
	case w.ranges.tryLock(p.offset):
		w.own(name, p)
	case w.blocked == maxBlocked:
		w.askLater(name, p)
	default:
		p.pause = 0 // somebody has the range: no need to look often
		p.blocked = true
		w.blocked++
		go w.block(name, p)
	}
}

// block waits in the kernel until the range is ours.
func (w *wakes) block(name string, p *place) {
	err := w.ranges.lock(p.offset)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.blocked--
	p.blocked = false
	if w.closed {
		w.ranges.unlock(p.offset)
		w.closeRanges()
		return
	}
	w.visitLocked(name, func(p *place) {
		if err != nil {
			w.askLater(name, p)
		} else {
			w.own(name, p)
		}
	})
}

// askLater asks again after a pause, unless the timer is that of our lease.
func (w *wakes) askLater(name string, p *place) {
	if p.token == "" {
		w.after(name, p, p.nextPause())
	}
}

// own notes that the range is ours. Without a lease, we are the candidate.
func (w *wakes) own(name string, p *place) {
	p.owned = true
	if p.token == "" {
		p.wake()
		w.after(name, p, candidacy)
	}
}

// keep notes our lease.
func (w *wakes) keep(name string, p *place, token string, ttl time.Duration) {
	p.token = token
	p.pause = 0
	w.ask(name, p)
	w.after(name, p, min(ttl, longest)+time.Millisecond) // the store rounds up
}

// standBack lets go of the range after an attempt that found the name held by
// somebody without it.
func (w *wakes) standBack(name string, p *place, found driver.State) {
	w.letGo(p)
	pause := p.nextPause()
	if len(found.Holders) == 1 {
		pause = min(pause, found.Holders[0].Left+time.Millisecond)
	}
	w.after(name, p, pause)
}

func (w *wakes) letGo(p *place) {
	if p.owned {
		p.owned = false
		w.ranges.unlock(p.offset)
	}
}

// after sets the place's timer.
func (w *wakes) after(name string, p *place, d time.Duration) {
	p.due = time.Now().Add(d)
	if p.timer == nil {
		p.timer = time.AfterFunc(d, func() { w.tick(name) })
	} else {
		p.timer.Reset(d)
	}
}

// tick does what the timer was set for.
func (w *wakes) tick(name string) {
	w.visit(name, func(p *place) {
		switch {
		case p.timer == nil || time.Now().Before(p.due): // set anew meanwhile
		case p.token != "": // our lease has ended
			p.token = ""
			w.letGo(p)
			w.after(name, p, turnPause)
		case !p.owned:
			w.ask(name, p)
		case p.attempts == 0: // a candidate that does nothing
			w.letGo(p)
			w.after(name, p, minPause)
		}
	})
}

// close lets go of everything.
func (w *wakes) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	for _, p := range w.places {
		p.stopTimer()
		w.letGo(p)
	}
	w.closeRanges()
}

// closeRanges closes the side file, unless a goroutine is still in the kernel
// with it: then the last of these does it.
func (w *wakes) closeRanges() {
	if w.blocked == 0 {
		w.ranges.close()
	}
}

// wake tells our waiters to look.
func (p *place) wake() {
	for waiter := range p.waiters {
		select {
		case waiter <- struct{}{}:
		default: // one hint is enough
		}
	}
}

// nextPause returns a longer pause than the last one, with jitter.
func (p *place) nextPause() time.Duration {
	p.pause = min(max(2*p.pause, minPause), maxPause)
	return p.pause - rand.N(p.pause/4)
}

func (p *place) stopTimer() {
	if p.timer != nil {
		p.timer.Stop()
		p.timer = nil
	}
}
