package once

import (
	"math"
	"time"
)

// Option changes one call of Run; see the functions that return one.
type Option func(*settings)

// settings are what one call of Run wants.
type settings struct {
	standBy       bool
	limit         time.Duration // of standing by
	maxAttempts   int           // 0: no limit
	retryFailed   bool
	startDeadline time.Duration // 0: no limit
	purpose       string
}

// Forever is for StandBy.
const Forever = time.Duration(math.MaxInt64)

// StandBy makes Run wait while another runs the job, for limit at the most, and
// take the slot over if that one crashes. Without it Run returns at once.
func StandBy(limit time.Duration) Option {
	return func(s *settings) { s.standBy, s.limit = true, limit }
}

// AtMostOnce marks a slot whose run crashed as lost; nobody takes it over. It
// is MaxAttempts(1).
func AtMostOnce() Option { return MaxAttempts(1) }

// MaxAttempts limits the attempts at a slot, at least 1; a slot whose last
// attempt crashed is lost. Without it a slot is tried until it is done.
func MaxAttempts(n int) Option {
	return func(s *settings) { s.maxAttempts = n }
}

// RetryFailed makes Run try a slot again that is done, but whose function
// returned an error. It does not try again by itself what it has tried.
func RetryFailed() Option {
	return func(s *settings) { s.retryFailed = true }
}

// StartDeadline makes Run skip a slot that it could start only later than d
// after the slot's beginning, by the store's clock; taking over counts as well.
func StartDeadline(d time.Duration) Option {
	return func(s *settings) { s.startDeadline = d }
}

// Purpose leaves a short text for those who find the job running.
func Purpose(text string) Option {
	return func(s *settings) { s.purpose = text }
}

func (s *settings) validate(schedule Schedule) error {
	switch {
	case schedule.Err() != nil:
		return schedule.Err()
	case s.standBy && s.limit <= 0:
		return misconfigured("StandBy(%v) is not positive", s.limit)
	case s.maxAttempts < 0:
		return misconfigured("MaxAttempts(%d) is negative", s.maxAttempts)
	case s.maxAttempts == 1 && s.retryFailed:
		return misconfigured("one attempt at the most and RetryFailed() contradict")
	case s.startDeadline < 0:
		return misconfigured("StartDeadline(%v) is negative", s.startDeadline)
	case s.startDeadline > 0 && schedule.fixed != "":
		return misconfigured("StartDeadline(%v) and Slot(%q) contradict: that slot has no beginning", s.startDeadline, schedule.fixed)
	}
	return nil
}
