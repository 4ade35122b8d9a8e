package drivertest

import (
	"context"
	"iter"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfastlock/holdfast/driver"
	"github.com/holdfastlock/holdfast/memstore"
)

// wrong is a mistake, and the parts of the suite that find it.
type wrong struct {
	make  func(right *memstore.Store) (open func() driver.Store)
	fails []string
}

// wrongStores are mistakes with locks.
var wrongStores = map[string]wrong{
	"each handle has its own locks": {
		func(*memstore.Store) func() driver.Store { return func() driver.Store { return memstore.New() } },
		[]string{"OneOfManyIsGranted", "HoldersComeOneAfterAnother", "ARefusalSaysWhoHoldsIt"},
	},
	"looks, then takes": {
		alter(func(s *altered) {
			s.acquire = func(ctx context.Context, req driver.AcquireRequest) (driver.AcquireResult, error) {
				free := s.holder(req.Name).Token == ""
				time.Sleep(time.Millisecond)
				if free { // it believes so: whoever came meanwhile is overwritten
					s.Store.Release(ctx, driver.ReleaseRequest{Name: req.Name, Token: s.holder(req.Name).Token})
				}
				return s.Store.Acquire(ctx, req)
			}
		}),
		[]string{"OneOfManyIsGranted", "HoldersComeOneAfterAnother"},
	},
	"a refusal says nothing": {
		acquiring(nil, func(_ driver.AcquireRequest, result *driver.AcquireResult) { result.State = driver.State{} }),
		[]string{"ARefusalSaysWhoHoldsIt"},
	},
	"acquire again is refused": {
		acquiring(func(s *altered, req *driver.AcquireRequest) {
			if s.holder(req.Name).Token == req.Token {
				req.Token += "again"
			}
		}, nil),
		[]string{"AcquireIsIdempotentByToken", "AcquireAgainNeverShortens"},
	},
	"acquire again is a new grant": {
		acquiring(func(s *altered, req *driver.AcquireRequest) {
			s.Store.Release(context.Background(), driver.ReleaseRequest{Name: req.Name, Token: req.Token})
		}, nil),
		[]string{"AcquireIsIdempotentByToken", "AgeCountsFromTheGrant"},
	},
	"acquire again leaves the old end": {
		acquiring(func(s *altered, req *driver.AcquireRequest) {
			if s.holder(req.Name).Token == req.Token {
				req.TTL = 0
			}
		}, nil),
		[]string{"AcquireIsIdempotentByToken"},
	},
	"acquire again shortens": {
		acquiring(func(s *altered, req *driver.AcquireRequest) {
			if s.holder(req.Name).Token == req.Token {
				s.again(req.Name, req.Token, req.TTL)
			}
		}, nil),
		[]string{"AcquireAgainNeverShortens"},
	},
	"leases end early": {
		acquiring(func(_ *altered, req *driver.AcquireRequest) { req.TTL /= 2 }, nil),
		[]string{"ALeaseEndsByTheStoresClock", "InspectShowsWhatIs"},
	},
	"leases never end": {
		acquiring(func(_ *altered, req *driver.AcquireRequest) { req.TTL *= 1000 }, nil),
		[]string{"ALeaseEndsByTheStoresClock", "AnEndedLeaseIsNotRevived", "ListShowsWhatIsHeld", "FencesIncreaseAcrossExpiry", "ASharedHolderEndsAlone"},
	},

	"release is blind": {
		releasing(func(s *altered, req *driver.ReleaseRequest) { req.Token = s.holder(req.Name).Token }),
		[]string{"ReleaseComparesTheToken", "ALateReleaseLeavesTheSuccessorAlone", "AnEndedLeaseIsNotRevived", "SharedHoldersAreCounted"},
	},
	"release always says mine": {
		alter(func(s *altered) {
			s.release = func(ctx context.Context, req driver.ReleaseRequest) (driver.Answer, error) {
				_, err := s.Store.Release(ctx, req)
				return driver.Mine, err
			}
		}),
		[]string{"ReleaseComparesTheToken", "ALateReleaseLeavesTheSuccessorAlone", "AWipedLeaseIsGone"},
	},
	"tombstones are ignored": {
		releasing(func(_ *altered, req *driver.ReleaseRequest) { req.Tombstone = 0 }),
		[]string{"ATombstoneRefusesItsTokenOnly", "ATombstoneEnds"},
	},
	"tombstones never end": {
		releasing(func(_ *altered, req *driver.ReleaseRequest) { req.Tombstone *= 1000 }),
		[]string{"ATombstoneEnds"},
	},
	"a tombstone refuses everybody": {
		alter(func(s *altered) {
			var buried sync.Map
			s.release = func(ctx context.Context, req driver.ReleaseRequest) (driver.Answer, error) {
				if req.Tombstone > 0 {
					buried.Store(req.Name, true)
				}
				return s.Store.Release(ctx, req)
			}
			s.acquire = func(ctx context.Context, req driver.AcquireRequest) (driver.AcquireResult, error) {
				if _, ok := buried.Load(req.Name); ok {
					return driver.AcquireResult{}, driver.ErrWithdrawn
				}
				return s.Store.Acquire(ctx, req)
			}
		}),
		[]string{"ATombstoneRefusesItsTokenOnly"},
	},

	"extend ignores the owner": {
		extending(func(s *altered, req *driver.ExtendRequest) {
			if token := s.holder(req.Name).Token; token != "" {
				req.Token = token
			}
		}),
		[]string{"ExtendComparesTheToken", "ManyLeasesAreExtendedInOneCall", "AnEndedLeaseIsNotRevived"},
	},
	"extend takes a free name": {
		extending(func(s *altered, req *driver.ExtendRequest) {
			s.Store.Acquire(context.Background(), driver.AcquireRequest{Name: req.Name, Token: req.Token, TTL: req.TTL})
		}),
		[]string{"ExtendComparesTheToken", "AnEndedLeaseIsNotRevived", "AWipedLeaseIsGone"},
	},
	"extend does nothing": {
		extending(func(_ *altered, req *driver.ExtendRequest) { req.TTL = 0 }),
		[]string{"ExtendLengthens", "AnExtendedLeaseEndsLater", "ManyLeasesAreExtendedInOneCall"},
	},
	"extend shortens": {
		extending(func(s *altered, req *driver.ExtendRequest) {
			if s.holder(req.Name).Token == req.Token {
				s.again(req.Name, req.Token, req.TTL)
			}
		}),
		[]string{"ExtendNeverShortens", "AgeCountsFromTheGrant"},
	},
	"extend answers in another order": {
		answering(func(_ []driver.ExtendRequest, results []driver.ExtendResult) []driver.ExtendResult {
			slices.Reverse(results)
			return results
		}),
		[]string{"ManyLeasesAreExtendedInOneCall"},
	},
	"extend answers for the first hundred": {
		answering(func(_ []driver.ExtendRequest, results []driver.ExtendResult) []driver.ExtendResult {
			return results[:min(100, len(results))]
		}),
		[]string{"ManyLeasesAreExtendedInOneCall"},
	},
	"extend fails all for a bad one": {
		answering(func(_ []driver.ExtendRequest, results []driver.ExtendResult) []driver.ExtendResult {
			for _, bad := range results {
				if bad.Err != nil {
					return slices.Repeat([]driver.ExtendResult{bad}, len(results))
				}
			}
			return results
		}),
		[]string{"ManyLeasesAreExtendedInOneCall"},
	},
	"extend changes its requests": {
		answering(func(reqs []driver.ExtendRequest, results []driver.ExtendResult) []driver.ExtendResult {
			slices.Reverse(reqs)
			return results
		}),
		[]string{"ManyLeasesAreExtendedInOneCall"},
	},
	"extend of nothing answers": {
		answering(func(_ []driver.ExtendRequest, results []driver.ExtendResult) []driver.ExtendResult {
			return append(results, driver.ExtendResult{})
		}),
		[]string{"AnExtendOfNothingIsNothing"},
	},

	"fences repeat": {
		acquiring(nil, func(_ driver.AcquireRequest, result *driver.AcquireResult) { result.Fence /= 1e9 }),
		[]string{"FencesIncrease", "HoldersComeOneAfterAnother", "FencesIncreaseAcrossRestart"},
	},
	"fences are not exact in JSON": {
		acquiring(nil, func(_ driver.AcquireRequest, result *driver.AcquireResult) { result.Fence *= 1000 }),
		[]string{"FencesIncrease"},
	},
	"fences are counted, and the count is part of the data": {
		func(right *memstore.Store) func() driver.Store {
			var count int64
			return acquiring(func(_ *altered, req *driver.AcquireRequest) {
				if state, _ := right.Inspect(context.Background(), req.Name); state.Fence == 0 {
					count = 0
				}
			}, func(_ driver.AcquireRequest, result *driver.AcquireResult) {
				count++
				result.Fence = count
			})(right)
		},
		[]string{"FencesIncreaseAcrossAWipe"},
	},
	"reserves one fence": {
		acquiring(func(_ *altered, req *driver.AcquireRequest) { req.Fences = 1 }, nil),
		[]string{"AGrantReservesAsManyFencesAsItIsAskedFor"},
	},
	"without fence there is one": {
		acquiring(func(_ *altered, req *driver.AcquireRequest) { req.NoFence = false }, nil),
		[]string{"AGrantWithoutFenceExcludesAsWell"},
	},
	"without fence nobody is excluded": {
		acquiring(nil, func(req driver.AcquireRequest, result *driver.AcquireResult) {
			result.Granted = result.Granted || req.Name == "plain"
		}),
		[]string{"AGrantWithoutFenceExcludesAsWell"},
	},

	"inspect shows the last fence for a holder without": {
		inspecting(func(state *driver.State) {
			for i := range state.Holders {
				state.Holders[i].Fence = state.Fence
			}
		}),
		[]string{"AGrantWithoutFenceExcludesAsWell"},
	},
	"inspect forgets the purpose": {
		inspecting(func(state *driver.State) {
			for i := range state.Holders {
				state.Holders[i].Purpose = ""
			}
		}),
		[]string{"InspectShowsWhatIs"},
	},
	"inspect never knows the age": {
		inspecting(func(state *driver.State) {
			for i := range state.Holders {
				state.Holders[i].Age = 0
			}
		}),
		[]string{"AgeCountsFromTheGrant"},
	},
	"list takes brackets as a class": {
		alter(func(s *altered) {
			s.list = func(ctx context.Context, pattern string) iter.Seq2[driver.State, error] {
				return func(yield func(driver.State, error) bool) {
					for state, err := range s.Store.List(ctx, "*") {
						if ok, _ := path.Match(pattern, state.Name); (ok || err != nil) && !yield(state, err) {
							return
						}
					}
				}
			}
		}),
		[]string{"ListMatchesPatterns"},
	},
	"list matches by case": {
		alter(func(s *altered) {
			s.list = func(ctx context.Context, pattern string) iter.Seq2[driver.State, error] {
				return s.Store.List(ctx, strings.ReplaceAll(pattern, "job", "?ob"))
			}
		}),
		[]string{"ListMatchesPatterns"},
	},
	"list hides an ended context": {
		alter(func(s *altered) {
			s.list = func(ctx context.Context, pattern string) iter.Seq2[driver.State, error] {
				return s.Store.List(context.WithoutCancel(ctx), pattern)
			}
		}),
		[]string{"AnEndedContextDoesNothing"},
	},

	"subscribe says nothing at first": {
		alter(func(s *altered) {
			s.subscribe = func(name string) (<-chan struct{}, func()) {
				wake, stop := s.Store.Subscribe(name)
				<-wake
				return wake, stop
			}
		}),
		[]string{"AReleaseBeforeSubscribeIsSignalled", "WaitersNeedNoTimer"},
	},
	"releases are not signalled": {
		alter(func(s *altered) {
			s.subscribe = func(string) (<-chan struct{}, func()) {
				wake := make(chan struct{}, 1)
				wake <- struct{}{}
				return wake, func() {}
			}
		}),
		[]string{"EachReleaseIsSignalled", "WaitersNeedNoTimer", "StopEndsOneSubscriptionOnly"},
	},
	"stop ends all subscriptions": {
		alter(func(s *altered) {
			var all []func()
			s.subscribe = func(name string) (<-chan struct{}, func()) {
				wake, stop := s.Store.Subscribe(name)
				all = append(all, stop)
				return wake, func() {
					for _, stop := range all {
						stop()
					}
				}
			}
		}),
		[]string{"StopEndsOneSubscriptionOnly"},
	},
	"stop leaves a goroutine": {
		alter(func(s *altered) {
			s.subscribe = func(name string) (<-chan struct{}, func()) {
				go func() { select {} }()
				return s.Store.Subscribe(name)
			}
		}),
		[]string{"StopLeavesNothing"},
	},

	"names are trimmed": {
		acquiring(func(_ *altered, req *driver.AcquireRequest) { req.Name = strings.TrimSpace(req.Name) }, nil),
		[]string{"NamesAreKeptApart"},
	},
	"bad names are accepted": {
		acquiring(func(_ *altered, req *driver.AcquireRequest) { req.Name = "n" + strings.ToValidUTF8(req.Name, "") }, nil),
		[]string{"BadNamesAreRefused"},
	},
	"an ended context is ignored": {
		alter(func(s *altered) {
			s.acquire = func(ctx context.Context, req driver.AcquireRequest) (driver.AcquireResult, error) {
				return s.Store.Acquire(context.WithoutCancel(ctx), req)
			}
		}),
		[]string{"AnEndedContextDoesNothing"},
	},

	"one too many share": {
		acquiring(func(_ *altered, req *driver.AcquireRequest) { req.Limit++ }, nil),
		[]string{"SharedHoldersAreCounted"},
	},
	"shared is taken as exclusive": {
		acquiring(func(_ *altered, req *driver.AcquireRequest) { req.Mode = driver.Exclusive }, nil),
		[]string{"SharedHoldersAreCounted", "SharedAndExclusiveExcludeEachOther", "ASharedHolderEndsAlone"},
	},
	"exclusive is taken as shared": {
		acquiring(func(_ *altered, req *driver.AcquireRequest) { req.Mode, req.Limit = driver.Shared, max(req.Limit, 2) }, nil),
		[]string{"SharedAndExclusiveExcludeEachOther", "OneOfManyIsGranted"},
	},
}
