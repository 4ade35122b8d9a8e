package holdfast

import (
	"time"

	"github.com/holdfastlock/holdfast/driver"
)

// AcquireOption changes one acquisition; see the functions that return one.
type AcquireOption func(*settings)

// settings are what one acquisition wants.
type settings struct {
	ttl       time.Duration
	maxWait   time.Duration // negative: no limit
	keepAlive bool
	maxHold   time.Duration // 0: no limit
	lockDelay time.Duration
	purpose   string
	fence     bool
}

// WithTTL sets how long the lease lasts unless it is extended, instead of
// Config.TTL. At least 100 ms.
func WithTTL(ttl time.Duration) AcquireOption {
	return func(s *settings) { s.ttl = ttl }
}

// WithMaxWait limits how long Acquire and Do wait for a lock that is held; then
// they return a *HeldError. With 0 they ask once. Without this option they wait
// until their context ends.
func WithMaxWait(limit time.Duration) AcquireOption {
	return func(s *settings) { s.maxWait = max(limit, 0) }
}

// WithoutKeepAlive gives a lease that ends with its TTL unless Extend or
// Confirm is called.
func WithoutKeepAlive() AcquireOption {
	return func(s *settings) { s.keepAlive = false }
}

// WithMaxHold ends the lease this long after it was granted, however well its
// renewals go: a job that hangs must not hold a lock for ever. It ends as lost,
// with LostMaxHold; the store frees the name when the last renewal runs out.
func WithMaxHold(limit time.Duration) AcquireOption {
	return func(s *settings) { s.maxHold = limit }
}

// WithLockDelay makes the store keep the name this much longer than the holder
// trusts its lease: after a crash, requests of the old holder that are still
// under way can end before another takes over. A release frees the name at
// once all the same. (Chubby's lock-delay.)
func WithLockDelay(delay time.Duration) AcquireOption {
	return func(s *settings) { s.lockDelay = delay }
}

// WithPurpose leaves a short text for those who find the lock held.
func WithPurpose(purpose string) AcquireOption {
	return func(s *settings) { s.purpose = purpose }
}

// WithoutFence acquires without a fencing token, where the store can do that
// more cheaply; with Redis it is the bare SET NX PX. Fence returns 0, and an
// acquire of a caller that has gone, arriving late, can't be refused.
func WithoutFence() AcquireOption {
	return func(s *settings) { s.fence = false }
}

// Limits of what can be asked for.
const (
	minTTL     = 100 * time.Millisecond // below, the margin eats too much of it
	maxPurpose = 256                    // bytes
)

func (s *settings) validate() error {
	switch {
	case s.ttl < minTTL:
		return misconfigured("TTL %v is shorter than %v", s.ttl, minTTL)
	case s.maxHold < 0:
		return misconfigured("WithMaxHold(%v) is negative", s.maxHold)
	case s.lockDelay < 0:
		return misconfigured("WithLockDelay(%v) is negative", s.lockDelay)
	case len(s.purpose) > maxPurpose:
		return misconfigured("WithPurpose has %d bytes, more than %d", len(s.purpose), maxPurpose)
	case s.purpose != "" && !s.fence:
		return misconfigured("WithPurpose(%q) and WithoutFence() contradict: the purpose is kept beside the fence", s.purpose)
	}
	return nil
}

// kept returns how long the store is asked to keep the name.
func (s *settings) kept() time.Duration { return s.ttl + s.lockDelay }

func (s *settings) request(name string) driver.AcquireRequest {
	return driver.AcquireRequest{
		Name: name, TTL: s.kept(), Purpose: s.purpose, NoFence: !s.fence,
	}
}

// passable says whether a tenure of these settings may be passed on: not where a
// limit counts from the grant, nor where the store says what it is for. (So a
// lease with a purpose has all the fencing tokens of its tenure: the store can
// know a run of package once by token and fence.)
func (s *settings) passable() bool { return s.maxHold == 0 && s.purpose == "" }

// same says whether a tenure of the one settings serves the other.
func (s settings) same(other settings) bool {
	s.maxWait = other.maxWait
	return s == other
}
