package drivertest

import (
	"context"
	"strings"
	"time"

	"github.com/holdfastlock/holdfast/driver"
	"github.com/holdfastlock/holdfast/memstore"
)

// wrongSlots are mistakes with slots.
var wrongSlots = map[string]wrong{
	"each handle has its own slots": {
		wrongStores["each handle has its own locks"].make,
		[]string{"ASlotRunsOnce", "AZombieCannotFinish"},
	},
	"done is not final": {
		beginning(nil, func(_ driver.BeginRequest, result *driver.BeginResult) { result.Verdict = driver.Begun }),
		[]string{"ASlotRunsOnce", "AttemptsAreLimited"},
	},
	"begin again is a new attempt": {
		beginning(nil, func(_ driver.BeginRequest, result *driver.BeginResult) {
			again[result.Run.Token]++
			result.Run.Attempt = again[result.Run.Token]
		}),
		[]string{"BeginIsIdempotentByToken"},
	},
	"begin answers one caller": {
		alter(func(s *altered) {
			turn := make(chan int, 1)
			turn <- 0
			s.begin = func(ctx context.Context, req driver.BeginRequest) (driver.BeginResult, error) {
				n := <-turn
				turn <- n + 1
				result, err := s.Store.BeginSlot(ctx, req)
				if n > 0 {
					result.Verdict = driver.Ended
				}
				return result, err
			}
		}),
		[]string{"OneOfManyBegins"},
	},
	"a late begin starts again what has failed": {
		beginning(func(s *altered, req *driver.BeginRequest) {
			if run := s.runner(req.Job, req.Slot); req.RetryFailed && run.Token == req.Token {
				req.Slot += " again"
			}
		}, nil),
		[]string{"BeginIsIdempotentByToken"},
	},
	"begin looks at the token alone": {
		beginning(func(s *altered, req *driver.BeginRequest) {
			if h := s.holder(req.Job); h.Token == req.Token {
				req.Fence = h.Fence
			}
		}, nil),
		[]string{"ATokenGrantedAgainIsAnotherRunner"},
	},
	"begin looks at nobody's lease": {
		beginning(func(s *altered, req *driver.BeginRequest) {
			h := s.holder(req.Job)
			req.Token, req.Fence = h.Token, h.Fence
			if req.Token == "" {
				req.Token = driver.NewToken("anybody/1")
				s.Store.Acquire(context.Background(), driver.AcquireRequest{Name: req.Job, Token: req.Token, TTL: time.Minute})
			}
		}, nil),
		[]string{"BeginNeedsTheLease", "AZombieCannotFinish"},
	},
	"finish compares nothing": {
		finishing(func(s *altered, req *driver.FinishRequest) {
			run := s.runner(req.Job, req.Slot)
			req.Token, req.Fence = run.Token, run.Fence
		}),
		[]string{"AZombieCannotFinish", "FinishIsIdempotentByToken"},
	},
	"finish does not compare the fence": {
		finishing(func(s *altered, req *driver.FinishRequest) { req.Fence = s.runner(req.Job, req.Slot).Fence }),
		[]string{"AZombieCannotFinish"},
	},
	"finish does not look at the lease": {
		alter(func(s *altered) {
			s.finish = func(ctx context.Context, req driver.FinishRequest) (driver.Answer, error) {
				answer, err := s.Store.FinishSlot(ctx, req)
				if run := s.runner(req.Job, req.Slot); run.Token == req.Token && run.Fence == req.Fence && err == nil {
					answer = driver.Mine
				}
				return answer, err
			}
		}),
		[]string{"AZombieCannotFinish"},
	},
	"finished again it is gone": {
		alter(func(s *altered) {
			s.finish = func(ctx context.Context, req driver.FinishRequest) (driver.Answer, error) {
				if s.runner(req.Job, req.Slot).Phase == driver.Done {
					return driver.Gone, nil
				}
				return s.Store.FinishSlot(ctx, req)
			}
		}),
		[]string{"FinishIsIdempotentByToken"},
	},
	"finish forgets how it ended": {
		finishing(func(_ *altered, req *driver.FinishRequest) { req.Code, req.Note = 0, "" }),
		[]string{"FinishIsIdempotentByToken", "AFailedRunIsRetriedIfAsked", "SlotsAreKeptApart"},
	},
	"a crashed run stays as it is": {
		beginning(nil, func(req driver.BeginRequest, result *driver.BeginResult) {
			if result.Run.Attempt > 1 {
				result.Verdict = driver.Ended
			}
		}),
		[]string{"ACrashedRunIsTakenOver", "AZombieCannotFinish", "RunsAreListedLastFirst"},
	},
	"attempts are not counted": {
		beginning(nil, func(_ driver.BeginRequest, result *driver.BeginResult) { result.Run.Attempt = 1 }),
		[]string{"ACrashedRunIsTakenOver", "AttemptsAreLimited"},
	},
	"a crashed run seems alive": {
		inspectingSlot(func(run *driver.Run, _ *time.Time) {
			if run.Phase == driver.Running {
				run.Left = time.Second
			}
		}),
		[]string{"ACrashedRunIsTakenOver"},
	},
	"there is no limit of attempts": {
		beginning(func(_ *altered, req *driver.BeginRequest) { req.MaxAttempts = 0 }, nil),
		[]string{"AttemptsAreLimited", "AFailedRunIsRetriedIfAsked"},
	},
	"what failed is tried again": {
		beginning(func(_ *altered, req *driver.BeginRequest) { req.RetryFailed = true }, nil),
		[]string{"AFailedRunIsRetriedIfAsked"},
	},
	"what failed is never tried again": {
		beginning(func(_ *altered, req *driver.BeginRequest) { req.RetryFailed = false }, nil),
		[]string{"AFailedRunIsRetriedIfAsked"},
	},
	"late is not too late": {
		beginning(func(_ *altered, req *driver.BeginRequest) { req.NotAfter = time.Time{} }, nil),
		[]string{"ALateBeginIsRefused"},
	},
	"runs are listed first first": {
		listingRuns(func(runs []driver.Run, limit int) []driver.Run {
			runs = runs[:min(limit, len(runs))]
			for i, j := 0, len(runs)-1; i < j; i, j = i+1, j-1 {
				runs[i], runs[j] = runs[j], runs[i]
			}
			return runs
		}),
		[]string{"RunsAreListedLastFirst"},
	},
	"all runs are listed": {
		listingRuns(func(runs []driver.Run, _ int) []driver.Run { return runs }),
		[]string{"RunsAreListedLastFirst"},
	},
	"the list ends early": {
		listingRuns(func(runs []driver.Run, limit int) []driver.Run { return runs[:min(limit, len(runs), 50)] }),
		[]string{"TheListIsBounded"},
	},
	"slots are kept for ever": {
		finishing(func(_ *altered, req *driver.FinishRequest) { req.Keep *= 1e4 }),
		[]string{"ADoneSlotIsKeptAWhile"},
	},
	"slots are kept for a month at the most": {
		finishing(func(_ *altered, req *driver.FinishRequest) { req.Keep = min(req.Keep, time.Minute) }),
		[]string{"ADoneSlotIsKeptAWhile"},
	},
	"a restart forgets": {
		func(right *memstore.Store) func() driver.Store {
			opened := 0
			return func() driver.Store {
				if opened++; opened > 2 {
					return memstore.New()
				}
				return right
			}
		},
		[]string{"SlotsSurviveARestart"},
	},
	"slots are trimmed": {
		alter(func(s *altered) {
			s.begin = func(ctx context.Context, req driver.BeginRequest) (driver.BeginResult, error) {
				req.Slot = strings.TrimSpace(req.Slot)
				return s.Store.BeginSlot(ctx, req)
			}
		}),
		[]string{"SlotsAreKeptApart"},
	},
	"bad slots are accepted": {
		beginning(func(_ *altered, req *driver.BeginRequest) { req.Slot = "s" }, nil),
		[]string{"BadSlotsAreRefused"},
	},
	"an ended context begins": {
		alter(func(s *altered) {
			s.begin = func(ctx context.Context, req driver.BeginRequest) (driver.BeginResult, error) {
				return s.Store.BeginSlot(context.WithoutCancel(ctx), req)
			}
		}),
		[]string{"AnEndedContextBeginsNothing"},
	},
	"the time is local": {
		inspectingSlot(func(_ *driver.Run, now *time.Time) { *now = now.In(time.FixedZone("here", 3600)) }),
		[]string{"ASlotRunsOnce"},
	},
}

// again counts begins by token; one process runs one part.
var again = make(map[string]int)
