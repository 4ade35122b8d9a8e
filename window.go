package holdfast

import "time"

// The part of a TTL that is not trusted: how far two clocks may drift apart
// while it runs, and how late a timer or a goroutine may be.
const (
	driftShare    = 100 // 1 % of the TTL
	marginShare   = 100 // 1 % of the TTL …
	marginAtLeast = 10 * time.Millisecond
)

// trusted returns how long after its request was sent a grant of ttl may be
// believed.
func trusted(ttl time.Duration) time.Duration {
	return ttl - ttl/driftShare - max(marginAtLeast, ttl/marginShare)
}

// window is the time in which a lease is trusted. It begins when the request
// was sent, not when the answer came: the store may have counted from then on.
type window struct {
	from   instant
	length time.Duration
}

// newWindow returns the window of a grant of ttl that was asked for at sent.
func newWindow(sent instant, ttl time.Duration) window {
	return window{from: sent, length: trusted(ttl)}
}

// left returns how much of the window is left; not positive when it is over.
func (w window) left(now instant) time.Duration { return w.length - now.since(w.from) }

// deadline returns when the window ends if no clock stops until then.
func (w window) deadline() time.Time { return w.from.at.Add(w.length) }

// capped returns the window, ending at most limit after start.
func (w window) capped(start instant, limit time.Duration) window {
	w.length = min(w.length, limit-w.from.since(start))
	return w
}

// later returns the one of both windows that has more left at now.
func (w window) later(other window, now instant) window {
	if other.left(now) > w.left(now) {
		return other
	}
	return w
}
