package supervise

import "time"

// action is what has to be done to the processes of the command.
type action int

const (
	nothing action = iota
	terminate
	kill
)

// standing is how a lease stands.
type standing int

const (
	held standing = iota
	// lost means that nobody keeps the lease any more, or that the store said
	// so; the successor may only be starting.
	lost
	// over means that its time ran out: another may be at work already.
	over
)

const (
	// killPause is the pause between two KILL: processes that were just being
	// started may have been missed.
	killPause = 20 * time.Millisecond
	// killPatience is how long we wait for the end of what was killed. A process
	// of another user, or one that hangs in the kernel, may not end.
	killPatience = time.Second
	// farewell is how long processes that outlive the command by a moment, as
	// the other end of a pipe may, are given to end.
	farewell = 100 * time.Millisecond
)

// plan decides when the processes of a command must be stopped so that they
// are gone before the lease ends. It does no I/O and reads no clock.
type plan struct {
	Rules
	// limit is when the command must end; zero means never.
	limit time.Time
	// deadline is the last one known while the lease was held.
	deadline time.Time
	lost     bool // the lease could not be kept
	late     bool // the limit was reached
	// Each is zero until it has happened.
	ended, terminated, killed time.Time
}

// step says what to do at the moment now, and when to ask again; zero means
// that nothing is to come by itself. Once it has said terminate it does not go
// back, whatever the lease does.
func (p *plan) step(now, deadline time.Time, lease standing) (action, time.Time) {
	if lease == held && !p.lost {
		p.deadline = deadline
	}
	p.lost = p.lost || lease != held || reached(now, p.giveUpAt())
	p.late = p.late || p.ended.IsZero() && reached(now, p.limit)
	switch {
	case !p.killed.IsZero():
		return kill, now.Add(killPause)
	case lease == over && p.OnLost == LostKill, reached(now, p.killAt()):
		p.killed = now
		return kill, now.Add(killPause)
	case !p.terminated.IsZero():
		return nothing, earliest(p.killAt(), p.leaveAt())
	case p.mustStop():
		p.terminated = now
		return terminate, earliest(p.killAt(), p.leaveAt())
	default:
		return nothing, earliest(p.giveUpAt(), p.limit, p.leaveAt())
	}
}

// giveUpAt is when a lease that was not renewed counts as lost.
func (p *plan) giveUpAt() time.Time {
	switch {
	case p.lost:
		return time.Time{}
	case p.OnLost == LostWarn:
		return p.deadline
	default:
		return p.deadline.Add(-p.Grace - p.Slack)
	}
}

func (p *plan) mustStop() bool {
	return p.late || p.lost && p.OnLost != LostWarn || !p.ended.IsZero() && p.Orphans == OrphansKill
}

// killAt is when what was terminated is killed: after the grace, and before the
// lease ends; zero means never.
func (p *plan) killAt() time.Time {
	if p.terminated.IsZero() {
		return time.Time{}
	}
	at := p.terminated.Add(p.Grace)
	switch last := p.deadline.Add(-p.Slack); {
	case p.OnLost == LostKill:
		return earliest(at, last)
	case p.late || !p.ended.IsZero() && p.Orphans == OrphansKill:
		return at
	default:
		return time.Time{}
	}
}

// leaveAt is when processes that are still there are left alone; zero means
// never.
func (p *plan) leaveAt() time.Time {
	stopping := !p.terminated.IsZero()
	switch {
	case !p.killed.IsZero():
		return p.killed.Add(killPatience)
	case p.ended.IsZero(), stopping && !p.killAt().IsZero(), !stopping && p.Orphans == OrphansWait:
		return time.Time{}
	default:
		return p.ended.Add(farewell)
	}
}

// reached says whether a time has come; zero never does.
func reached(now, at time.Time) bool { return !at.IsZero() && !now.Before(at) }

// earliest returns the first of the times that are not zero.
func earliest(times ...time.Time) time.Time {
	var first time.Time
	for _, t := range times {
		if first.IsZero() || !t.IsZero() && t.Before(first) {
			first = t
		}
	}
	return first
}
