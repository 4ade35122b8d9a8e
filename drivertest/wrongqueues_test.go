package drivertest

import (
	"context"
	"errors"
	"time"

	"github.com/holdfastlock/holdfast/driver"
)

// wrongQueues are mistakes with queues.
var wrongQueues = map[string]wrong{
	"each handle has its own queue": {
		wrongStores["each handle has its own locks"].make,
		[]string{"WaitersAreServedInTheirOrder"},
	},
	"who comes last is served first": {
		alter(func(s *altered) {
			var waiting []driver.QueueRequest
			s.enqueue = func(ctx context.Context, req driver.QueueRequest) (driver.QueueResult, error) {
				for _, other := range waiting {
					s.giveUp(other)
				}
				result, err := s.Store.Enqueue(ctx, req)
				for _, other := range waiting {
					s.Store.Enqueue(ctx, other)
				}
				result.Before = len(waiting)
				waiting = append([]driver.QueueRequest{req}, waiting...)
				return result, err
			}
		}),
		[]string{"WaitersAreServedInTheirOrder"},
	},
	"who asks again goes to the end": {
		enqueuing(func(s *altered, req *driver.QueueRequest) {
			if s.holder(req.Name).Token != req.Token {
				s.giveUp(*req)
			}
		}, nil),
		[]string{"EnqueueIsIdempotent", "APlaceIsKept"},
	},
	"only a release hands on": {
		enqueuing(func(s *altered, req *driver.QueueRequest) {
			s.Store.Acquire(context.Background(), driver.AcquireRequest{Name: req.Name, Token: driver.NewToken("nobody/1"), TTL: time.Millisecond})
		}, nil),
		[]string{"AFreeNameIsHandedOnByWhoeverAsks", "TheFirstWaiterTakesAFreeName"},
	},
	"a grant leaves a place behind": {
		alter(func(s *altered) {
			s.enqueue = func(ctx context.Context, req driver.QueueRequest) (driver.QueueResult, error) {
				result, err := s.Store.Enqueue(ctx, req)
				if result.Granted {
					req.Token = driver.NewToken("left/1")
					s.Store.Enqueue(ctx, req)
				}
				return result, err
			}
		}),
		[]string{"TheFirstWaiterTakesAFreeName", "TheNameIsPassedOnIfNobodyWaits"},
	},
	"a first try waits in line": {
		alter(func(s *altered) {
			seen := make(map[string]bool)
			s.enqueue = func(ctx context.Context, req driver.QueueRequest) (driver.QueueResult, error) {
				seen[req.Name] = true
				return s.Store.Enqueue(ctx, req)
			}
			s.acquire = func(ctx context.Context, req driver.AcquireRequest) (driver.AcquireResult, error) {
				if seen[req.Name] && s.holder(req.Name).Token == "" {
					return driver.AcquireResult{}, nil
				}
				return s.Store.Acquire(ctx, req)
			}
		}),
		[]string{"AFirstTryMayGoBefore"},
	},

	"nothing is told": {
		opening(func(l *driver.Listener) { l.Handed = func(driver.HandOff) {} }, nil),
		[]string{"WaitersAreServedInTheirOrder", "WaitersNeedNoClock"},
	},
	"an inbox does not say that it listens": {
		opening(func(l *driver.Listener) { l.Restored = func() {} }, nil),
		[]string{"AnInboxEnds"},
	},
	"a closed inbox listens on": {
		opening(nil, func(inbox driver.Inbox) driver.Inbox { return unclosed{inbox} }),
		[]string{"AnInboxEnds", "DeadWaitersArePassedOver"},
	},
	"all inboxes have one address": {
		opening(nil, func(inbox driver.Inbox) driver.Inbox { return addressed{inbox} }),
		[]string{"AnInboxEnds", "WaitersAreServedInTheirOrder"},
	},
	"the dead are handed the name": {
		alter(func(s *altered) {
			grave := s.Store.OpenInbox(driver.Listener{Restored: func() {}, Handed: func(driver.HandOff) {}})
			s.enqueue = func(ctx context.Context, req driver.QueueRequest) (driver.QueueResult, error) {
				if req.Inbox == "nobody" {
					req.Inbox = grave.Address()
				}
				return s.Store.Enqueue(ctx, req)
			}
		}),
		[]string{"DeadWaitersArePassedOver", "AQueueOfTheDeadFreesTheName"},
	},

	"a claim is not renewed": {
		enqueuing(func(s *altered, req *driver.QueueRequest) {
			if s.holder(req.Name).Token == req.Token {
				req.TTL = 0
			}
		}, nil),
		[]string{"AHandOffIsClaimedByAsking", "AClaimWithoutFenceHasNone"},
	},
	"a claim again is a new grant": {
		enqueuing(nil, func(_ driver.QueueRequest, result *driver.QueueResult) {
			if result.Granted {
				claims++
				result.Fence += claims
			}
		}),
		[]string{"AHandOffIsClaimedByAsking", "TheNameIsPassedOnIfNobodyWaits"},
	},
	"a claim has an old fence": {
		enqueuing(nil, func(_ driver.QueueRequest, result *driver.QueueResult) { result.Fence = min(result.Fence, 1) }),
		[]string{"AHandOffIsClaimedByAsking", "TheNameIsPassedOnIfNobodyWaits", "WaitersNeedNoClock"},
	},
	"a claim reserves one fence": {
		enqueuing(func(_ *altered, req *driver.QueueRequest) { req.Fences = 1 }, nil),
		[]string{"AHandOffIsClaimedByAsking"},
	},
	"a claim always has a fence": {
		enqueuing(func(_ *altered, req *driver.QueueRequest) { req.NoFence = false }, nil),
		[]string{"AClaimWithoutFenceHasNone"},
	},
	"a name is handed on for good": {
		alter(func(s *altered) {
			s.release = func(ctx context.Context, req driver.ReleaseRequest) (driver.Answer, error) {
				answer, err := s.Store.Release(ctx, req)
				s.Store.Extend(ctx, []driver.ExtendRequest{{Name: req.Name, Token: s.holder(req.Name).Token, TTL: time.Hour}})
				return answer, err
			}
		}),
		[]string{"AHandOffThatNobodyClaimsEnds", "AHandOffIsClaimedByAsking"},
	},

	"a release leaves the place": {
		releasing(func(_ *altered, req *driver.ReleaseRequest) { req.Inbox = "" }),
		[]string{"AReleaseGivesUpThePlace", "AWithdrawnWaiterLosesItsPlace"},
	},
	"a release hands on what others hold": {
		releasing(func(s *altered, req *driver.ReleaseRequest) { req.Token = s.holder(req.Name).Token }),
		[]string{"AReleaseThatOwnsNothingFreesNobody"},
	},
	"a withdrawn token is queued": {
		alter(func(s *altered) {
			s.enqueue = func(ctx context.Context, req driver.QueueRequest) (driver.QueueResult, error) {
				result, err := s.Store.Enqueue(ctx, req)
				if errors.Is(err, driver.ErrWithdrawn) {
					req.Token = driver.NewToken("in/disguise")
					return s.Store.Enqueue(ctx, req)
				}
				return result, err
			}
		}),
		[]string{"AWithdrawnWaiterLosesItsPlace"},
	},

	"the previous token is ignored": {
		enqueuing(func(_ *altered, req *driver.QueueRequest) { req.Previous = "" }, nil),
		[]string{"TheNameIsPassedOnIfNobodyWaits", "TheNameIsHandedOnIfOthersWait", "AWithdrawnTokenReleasesThePreviousOne"},
	},
	"the new token comes first": {
		enqueuing(nil, func(_ driver.QueueRequest, result *driver.QueueResult) {
			result.Granted = result.Granted || result.Previous == driver.Mine
		}),
		[]string{"TheNameIsHandedOnIfOthersWait"},
	},
	"a previous token that is gone ends it": {
		alter(func(s *altered) {
			s.enqueue = func(ctx context.Context, req driver.QueueRequest) (driver.QueueResult, error) {
				if req.Previous != "" && s.holder(req.Name).Token != req.Previous {
					return driver.QueueResult{Previous: driver.Gone}, nil
				}
				return s.Store.Enqueue(ctx, req)
			}
		}),
		[]string{"TheNewTokenIsServedIfTheOldOneIsGone", "TheNameIsPassedOnIfNobodyWaits"},
	},
	"a withdrawn token keeps the previous one": {
		alter(func(s *altered) {
			s.enqueue = func(ctx context.Context, req driver.QueueRequest) (driver.QueueResult, error) {
				if _, err := s.Store.Acquire(ctx, driver.AcquireRequest{Name: req.Name, Token: req.Token, TTL: 1}); err != nil {
					return driver.QueueResult{}, err
				}
				return s.Store.Enqueue(ctx, req)
			}
		}),
		[]string{"AWithdrawnTokenReleasesThePreviousOne"},
	},
	"there is always a previous token": {
		enqueuing(nil, func(_ driver.QueueRequest, result *driver.QueueResult) {
			result.Previous = max(result.Previous, driver.Gone)
		}),
		[]string{"WithoutAPreviousTokenThereIsNoAnswer"},
	},

	"places end early": {
		enqueuing(func(_ *altered, req *driver.QueueRequest) { req.Keep /= 1000 }, nil),
		[]string{"APlaceIsKept"},
	},
	"places never end": {
		enqueuing(func(_ *altered, req *driver.QueueRequest) { req.Keep = 1 << 62 }, nil),
		[]string{"APlaceEnds"},
	},
	"shared is queued as exclusive": {
		enqueuing(func(_ *altered, req *driver.QueueRequest) { req.Mode = driver.Exclusive }, nil),
		[]string{"EnqueueRefusesWhatAcquireRefuses"},
	},
	"an ended context is queued": {
		alter(func(s *altered) {
			s.enqueue = func(ctx context.Context, req driver.QueueRequest) (driver.QueueResult, error) {
				return s.Store.Enqueue(context.WithoutCancel(ctx), req)
			}
		}),
		[]string{"EnqueueRefusesWhatAcquireRefuses"},
	},
}

// claims counts grants; one process runs one part.
var claims int64

// unclosed is an inbox whose end is not noticed.
type unclosed struct{ driver.Inbox }

func (unclosed) Close() {}

// addressed is an inbox that takes itself for the first one.
type addressed struct{ driver.Inbox }

func (addressed) Address() string { return "inbox 1" }

// giveUp takes the waiter out of the queue.
func (s *altered) giveUp(req driver.QueueRequest) {
	s.Store.Release(context.Background(), driver.ReleaseRequest{Name: req.Name, Token: req.Token, Inbox: req.Inbox})
}
