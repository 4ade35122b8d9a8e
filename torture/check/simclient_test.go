package check_test

import (
	"fmt"
	"strings"
	"time"

	"github.com/holdfastlock/holdfast/torture/history"
)

// lock returns what the store knows of a name now.
func (s *simulation) lock(name string) *simLock {
	l := s.locks[name]
	if l == nil {
		l = &simLock{}
		s.locks[name] = l
	}
	if l.token != nil && l.expiry <= s.now {
		l.token = nil
	}
	return l
}

// grant gives the name to the lease if it is free.
func (s *simulation) grant(lease *simLease) bool {
	l := s.lock(lease.name)
	if l.token != nil && !s.wrong(grantsTwice) || l.token == nil && lease.once && s.wrong(refusesFree) {
		return false
	}
	before := l.fence
	l.fence = max(l.fence+1, s.now/1000)
	if before > 0 && s.wrong(repeatsFence) {
		l.fence = before
	}
	l.token, l.expiry, lease.fence = lease, s.now+int64(simTTL), l.fence
	return true
}

// free frees the name if the lease holds it.
func (s *simulation) free(lease *simLease) bool {
	l := s.lock(lease.name)
	switch {
	case l.token == lease && s.wrong(sticks):
		l.expiry = s.now + int64(time.Hour)
		return true
	case l.token == lease, l.token != nil && s.wrong(freesAnother):
		l.token = nil
		return true
	}
	return false
}

// work does one thing after the other.
func (c *simClient) work() {
	if c.sim.chance(15) {
		c.runSlot()
		return
	}
	patience := time.Duration(0)
	if c.sim.chance(70) {
		patience = simTTL
	}
	c.acquire(fmt.Sprintf("lock-%d", c.sim.random.IntN(2)), patience)
}

func (c *simClient) rest() { c.sim.after(c, c.sim.upTo(2*simTrip), c.work) }

// acquire asks for the name until it is granted, or patience is over.
func (c *simClient) acquire(name string, patience time.Duration) {
	s := c.sim
	lease := &simLease{client: c, name: name, once: patience == 0}
	op, done := c.call(history.Event{Do: history.Acquire, Name: name, Unfenced: s.unfenced})
	lease.op = op
	until := s.now + int64(patience)
	var ask func()
	ask = func() {
		sent, granted := s.now, false
		s.request(c, func() { granted = s.grant(lease) }, func() {
			lease.deadline = sent + int64(simTrusted)
			switch {
			case granted && lease.deadline > s.now:
				if s.unfenced {
					lease.fence = 0
				}
				done(history.OK, history.Event{Fence: lease.fence, Deadline: lease.deadline})
				c.hold(lease)
			case granted:
				c.takeBack(lease, done)
			case s.now < until:
				s.after(c, s.upTo(2*simTrip), ask)
			default:
				done(history.Held, history.Event{})
				c.rest()
			}
		}, func() { c.takeBack(lease, done) })
	}
	ask()
}

// takeBack frees what an acquire without an answer may have taken, unless that
// is lost too.
func (c *simClient) takeBack(lease *simLease, done func(history.Outcome, history.Event)) {
	done(history.Unreachable, history.Event{})
	nothing := func() {}
	c.sim.after(c, simTimeout, func() { // when the acquire is no longer on its way
		c.sim.request(c, func() { c.sim.free(lease) }, nothing, nothing)
	})
	c.rest()
}

// lost says that the lease is over, and goes on with something else.
func (c *simClient) lost(l *simLease) bool {
	if c.sim.now < l.deadline {
		return false
	}
	l.over = true
	c.sim.add(history.Event{Kind: history.Lost, Process: c.process(), Op: l.op, Name: l.name})
	return true
}

// hold keeps the lease alive, and uses it.
func (c *simClient) hold(l *simLease) {
	c.holds = true
	c.sim.after(c, simTTL/3, func() { c.renew(l) })
	if c.sim.unfenced {
		c.sim.after(c, c.pause(), func() { c.release(l) })
		return
	}
	c.touch(l)
}

// pause returns how long to work, seldom so long that the lease is renewed.
func (c *simClient) pause() time.Duration {
	if c.sim.chance(5) {
		return simTTL * 3 / 2
	}
	return c.sim.upTo(10 * simTrip)
}

func (c *simClient) renew(l *simLease) {
	s := c.sim
	if l.over || s.now >= l.deadline {
		return
	}
	sent, mine := s.now, false
	again := func() {
		s.after(c, simTTL/10, func() { c.renew(l) })
	}
	s.request(c, func() {
		if lock := s.lock(l.name); lock.token == l {
			lock.expiry, mine = s.now+int64(simTTL), true
		}
	}, func() {
		if l.over || s.now >= l.deadline {
			return
		}
		if !mine {
			l.deadline = s.now
			c.lost(l)
			return
		}
		l.deadline = sent + int64(simTrusted)
		s.add(history.Event{Kind: history.Extended, Process: c.process(), Op: l.op, Name: l.name, Deadline: l.deadline})
		again()
	}, again)
}

// touch shows the fence to the guarded resource and reads it, then the one
// beside it that is not guarded; pauses, and writes to both.
func (c *simClient) touch(l *simLease) {
	guarded, unguarded := "guarded/"+l.name, "unguarded/"+l.name
	c.read(l, guarded, func(version int64) {
		c.read(l, unguarded, func(other int64) {
			c.sim.after(c, c.pause(), func() {
				c.write(l, guarded, version, func() {
					c.write(l, unguarded, other, func() { c.release(l) })
				})
			})
		})
	})
}

// read reads a resource, or releases the lease if it can't.
func (c *simClient) read(l *simLease, resource string, then func(version int64)) {
	e := history.Event{Do: history.Touch, Name: resource, Lease: l.op, Fence: l.fence}
	if !guarded(resource) {
		e.Do = history.Read
	}
	op, done := c.call(e)
	e.Process, e.Op = c.process(), op
	var version int64
	accepted := false
	c.sim.request(c, func() { version, accepted = c.sim.decide(e) }, func() {
		if !accepted {
			done(history.StaleFence, history.Event{})
			c.release(l)
			return
		}
		done(history.OK, history.Event{Version: version})
		then(version)
	}, func() {
		done(history.Unreachable, history.Event{})
		c.release(l)
	})
}

func guarded(resource string) bool { return strings.HasPrefix(resource, "guarded/") }

func (c *simClient) write(l *simLease, resource string, based int64, then func()) {
	s := c.sim
	e := history.Event{Do: history.Write, Name: resource, Lease: l.op, Fence: l.fence, Based: based}
	e.Value = fmt.Sprintf("%s/%d", c.process(), c.ops+1)
	op, done := c.call(e)
	accepted := false
	s.request(c, func() {
		e.Process, e.Op = c.process(), op
		_, accepted = s.decide(e)
	}, func() {
		outcome := history.StaleFence
		if accepted {
			outcome = history.OK
		}
		done(outcome, history.Event{})
		then()
	}, func() {
		done(history.Unreachable, history.Event{})
		then()
	})
}

// decide is a resource.
func (s *simulation) decide(e history.Event) (version int64, accepted bool) {
	r := s.resources[e.Name]
	if r == nil {
		r = &simResource{}
		s.resources[e.Name] = r
	}
	e.Guarded = guarded(e.Name)
	if e.Guarded && e.Fence < r.fence && !s.wrong(letsStaleIn) {
		e.Kind = history.Stale
		s.add(e)
		return r.version, false
	}
	if e.Do == history.Write && e.Guarded && s.wrong(forgetsWrite) {
		return r.version, true
	}
	r.fence = max(r.fence, e.Fence)
	if e.Do == history.Write {
		r.version++
	}
	if e.Kind, e.Version = history.Accepted, r.version; e.Do != history.Read {
		s.add(e)
	}
	return r.version, true
}

func (c *simClient) release(l *simLease) {
	s := c.sim
	if !l.over && !c.lost(l) {
		l.over = true
	}
	_, done := c.call(history.Event{Do: history.Release, Name: l.name, Lease: l.op})
	c.holds = false
	trusted, mine := s.now < l.deadline, false
	s.request(c, func() { mine = s.free(l) }, func() {
		if trusted && mine {
			done(history.OK, history.Event{})
		} else {
			done(history.LostLease, history.Event{})
		}
		c.rest()
	}, func() {
		done(history.Unreachable, history.Event{})
		c.rest()
	})
}

// runSlot makes an attempt at a slot, if it is not done nor under way.
func (c *simClient) runSlot() {
	s := c.sim
	slot := fmt.Sprintf("slot-%d", (s.now-int64(time.Hour))/int64(simTTL))
	l := &simLease{client: c, name: "job"}
	op, done := c.call(history.Event{Do: history.RunSlot, Name: l.name, Slot: slot})
	l.op = op
	attempt := 0
	failed := func() {
		done(history.Unreachable, history.Event{Slot: slot})
		c.rest()
	}
	sent := s.now
	s.request(c, func() {
		record := s.slots[slot]
		if record == nil {
			record = &simSlot{}
			s.slots[slot] = record
		}
		if !record.done && s.grant(l) || record.done && s.wrong(finishesTwice) {
			record.attempts++
			attempt = record.attempts
			l.fence = max(l.fence, s.now/1000)
		}
	}, func() {
		l.deadline = sent + int64(simTrusted)
		if attempt == 0 || s.now >= l.deadline {
			done(history.Skipped, history.Event{Slot: slot})
			c.rest()
			return
		}
		e := history.Event{Kind: history.Began, Process: c.process(), Op: op, Name: l.name, Slot: slot}
		e.Attempt, e.Fence, e.Deadline = attempt, l.fence, l.deadline
		s.add(e)
		s.after(c, s.upTo(simTTL/2), func() { c.finish(l, slot, done, failed) })
	}, failed)
}

func (c *simClient) finish(l *simLease, slot string, done func(history.Outcome, history.Event), failed func()) {
	s := c.sim
	s.add(history.Event{Kind: history.Ended, Process: c.process(), Op: l.op})
	finished := false
	s.request(c, func() {
		if s.lock(l.name).token == l || s.bugged && s.bug == finishesTwice {
			finished = true
			s.slots[slot].done = true
			s.lock(l.name).token = nil
		}
	}, func() {
		outcome := history.LostLease
		if finished {
			outcome = history.OK
		}
		done(outcome, history.Event{Slot: slot})
		c.rest()
	}, failed)
}
