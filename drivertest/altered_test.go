package drivertest

import (
	"context"
	"iter"
	"slices"
	"time"

	"github.com/holdfastlock/holdfast/driver"
	"github.com/holdfastlock/holdfast/memstore"
)

// altered is a right store with some of its methods replaced.
type altered struct {
	*memstore.Store
	acquire   func(context.Context, driver.AcquireRequest) (driver.AcquireResult, error)
	extend    func(context.Context, []driver.ExtendRequest) []driver.ExtendResult
	release   func(context.Context, driver.ReleaseRequest) (driver.Answer, error)
	inspect   func(context.Context, string) (driver.State, error)
	list      func(context.Context, string) iter.Seq2[driver.State, error]
	subscribe func(string) (<-chan struct{}, func())
}

func (s *altered) Acquire(ctx context.Context, req driver.AcquireRequest) (driver.AcquireResult, error) {
	return s.acquire(ctx, req)
}

func (s *altered) Extend(ctx context.Context, reqs []driver.ExtendRequest) []driver.ExtendResult {
	return s.extend(ctx, reqs)
}

func (s *altered) Release(ctx context.Context, req driver.ReleaseRequest) (driver.Answer, error) {
	return s.release(ctx, req)
}

func (s *altered) Inspect(ctx context.Context, name string) (driver.State, error) {
	return s.inspect(ctx, name)
}

func (s *altered) List(ctx context.Context, pattern string) iter.Seq2[driver.State, error] {
	return s.list(ctx, pattern)
}

func (s *altered) Subscribe(name string) (<-chan struct{}, func()) { return s.subscribe(name) }

// holder returns who holds the name, or nobody.
func (s *altered) holder(name string) driver.Holder {
	state, err := s.Store.Inspect(context.Background(), name)
	if err != nil || len(state.Holders) == 0 {
		return driver.Holder{}
	}
	return state.Holders[0]
}

// alter makes both handles the same store with one thing wrong.
func alter(change func(s *altered)) func(right *memstore.Store) func() driver.Store {
	return func(right *memstore.Store) func() driver.Store {
		s := &altered{
			Store: right, acquire: right.Acquire, extend: right.Extend, release: right.Release,
			inspect: right.Inspect, list: right.List, subscribe: right.Subscribe,
		}
		change(s)
		return func() driver.Store { return s }
	}
}

// acquiring changes requests on their way in and results on their way out.
func acquiring(in func(s *altered, req *driver.AcquireRequest), out func(req driver.AcquireRequest, result *driver.AcquireResult)) func(*memstore.Store) func() driver.Store {
	return alter(func(s *altered) {
		s.acquire = func(ctx context.Context, req driver.AcquireRequest) (driver.AcquireResult, error) {
			if in != nil {
				in(s, &req)
			}
			result, err := s.Store.Acquire(ctx, req)
			if out != nil {
				out(req, &result)
			}
			return result, err
		}
	})
}

func releasing(in func(s *altered, req *driver.ReleaseRequest)) func(*memstore.Store) func() driver.Store {
	return alter(func(s *altered) {
		s.release = func(ctx context.Context, req driver.ReleaseRequest) (driver.Answer, error) {
			in(s, &req)
			return s.Store.Release(ctx, req)
		}
	})
}

func extending(in func(s *altered, req *driver.ExtendRequest)) func(*memstore.Store) func() driver.Store {
	return alter(func(s *altered) {
		s.extend = func(ctx context.Context, reqs []driver.ExtendRequest) []driver.ExtendResult {
			reqs = slices.Clone(reqs)
			for i := range reqs {
				in(s, &reqs[i])
			}
			return s.Store.Extend(ctx, reqs)
		}
	})
}

func answering(out func(reqs []driver.ExtendRequest, results []driver.ExtendResult) []driver.ExtendResult) func(*memstore.Store) func() driver.Store {
	return alter(func(s *altered) {
		s.extend = func(ctx context.Context, reqs []driver.ExtendRequest) []driver.ExtendResult {
			return out(reqs, s.Store.Extend(ctx, reqs))
		}
	})
}

func inspecting(out func(state *driver.State)) func(*memstore.Store) func() driver.Store {
	return alter(func(s *altered) {
		s.inspect = func(ctx context.Context, name string) (driver.State, error) {
			state, err := s.Store.Inspect(ctx, name)
			out(&state)
			return state, err
		}
	})
}

// again makes the lease of the request last exactly d, which no right store does.
func (s *altered) again(name, token string, d time.Duration) {
	ctx := context.Background()
	s.Store.Release(ctx, driver.ReleaseRequest{Name: name, Token: token})
	s.Store.Acquire(ctx, driver.AcquireRequest{Name: name, Token: token, TTL: d})
}
