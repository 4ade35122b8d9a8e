package supervise

import "time"

// action is what has to be done to the process group.
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
	// lost means that the store said so; the successor may only be starting.
	lost
	// over means that its time ran out: another may be at work already.
	over
)

// plan decides when a process group must be stopped so that it is gone before
// its lease ends. It does no I/O and reads no clock.
type plan struct {
	grace, slack time.Duration
	// deadline is the last one known while the lease was held.
	deadline time.Time
	// killAt is zero until the group has to stop.
	killAt time.Time
	killed bool
}

// step says what to do at the moment now, and when to ask again; zero means
// that there is nothing more to come. Once it has said terminate it does not go
// back, whatever the lease does.
func (p *plan) step(now, deadline time.Time, lease standing) (action, time.Time) {
	switch {
	case p.killed:
		return nothing, time.Time{}
	case lease == over, p.stopping() && !now.Before(p.killAt):
		p.killed, p.killAt = true, now
		return kill, time.Time{}
	case p.stopping():
		return nothing, p.killAt
	default:
		return p.keepOrTerminate(now, deadline, lease)
	}
}

func (p *plan) keepOrTerminate(now, deadline time.Time, lease standing) (action, time.Time) {
	if lease == held {
		p.deadline = deadline
		terminateAt := deadline.Add(-p.grace - p.slack)
		if now.Before(terminateAt) {
			return nothing, terminateAt
		}
	}
	p.killAt = now.Add(p.grace)
	if last := p.deadline.Add(-p.slack); last.Before(p.killAt) {
		p.killAt = last
	}
	return terminate, p.killAt
}

// stopping says whether the group has to stop.
func (p *plan) stopping() bool { return !p.killAt.IsZero() }
