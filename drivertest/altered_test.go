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

	enqueue   func(context.Context, driver.QueueRequest) (driver.QueueResult, error)
	openInbox func(driver.Listener) driver.Inbox

	inspectSlot func(context.Context, string, string) (driver.Run, time.Time, error)
	begin       func(context.Context, driver.BeginRequest) (driver.BeginResult, error)
	finish      func(context.Context, driver.FinishRequest) (driver.Answer, error)
	runs        func(context.Context, string, int) ([]driver.Run, error)
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

func (s *altered) Enqueue(ctx context.Context, req driver.QueueRequest) (driver.QueueResult, error) {
	return s.enqueue(ctx, req)
}

func (s *altered) OpenInbox(listener driver.Listener) driver.Inbox { return s.openInbox(listener) }

func (s *altered) InspectSlot(ctx context.Context, job, slot string) (driver.Run, time.Time, error) {
	return s.inspectSlot(ctx, job, slot)
}

func (s *altered) BeginSlot(ctx context.Context, req driver.BeginRequest) (driver.BeginResult, error) {
	return s.begin(ctx, req)
}

func (s *altered) FinishSlot(ctx context.Context, req driver.FinishRequest) (driver.Answer, error) {
	return s.finish(ctx, req)
}

func (s *altered) Runs(ctx context.Context, job string, limit int) ([]driver.Run, error) {
	return s.runs(ctx, job, limit)
}

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
			enqueue: right.Enqueue, openInbox: right.OpenInbox,
			inspectSlot: right.InspectSlot, begin: right.BeginSlot, finish: right.FinishSlot, runs: right.Runs,
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

// enqueuing changes requests on their way in and results on their way out.
func enqueuing(in func(s *altered, req *driver.QueueRequest), out func(req driver.QueueRequest, result *driver.QueueResult)) func(*memstore.Store) func() driver.Store {
	return alter(func(s *altered) {
		s.enqueue = func(ctx context.Context, req driver.QueueRequest) (driver.QueueResult, error) {
			if in != nil {
				in(s, &req)
			}
			result, err := s.Store.Enqueue(ctx, req)
			if out != nil && err == nil {
				out(req, &result)
			}
			return result, err
		}
	})
}

// opening changes what the store has for a listener and gives for an inbox.
func opening(in func(listener *driver.Listener), out func(driver.Inbox) driver.Inbox) func(*memstore.Store) func() driver.Store {
	return alter(func(s *altered) {
		s.openInbox = func(listener driver.Listener) driver.Inbox {
			if in != nil {
				in(&listener)
			}
			inbox := s.Store.OpenInbox(listener)
			if out != nil {
				inbox = out(inbox)
			}
			return inbox
		}
	})
}

// beginning changes requests on their way in and results on their way out.
func beginning(in func(s *altered, req *driver.BeginRequest), out func(req driver.BeginRequest, result *driver.BeginResult)) func(*memstore.Store) func() driver.Store {
	return alter(func(s *altered) {
		s.begin = func(ctx context.Context, req driver.BeginRequest) (driver.BeginResult, error) {
			if in != nil {
				in(s, &req)
			}
			result, err := s.Store.BeginSlot(ctx, req)
			if out != nil && err == nil {
				out(req, &result)
			}
			return result, err
		}
	})
}

func finishing(in func(s *altered, req *driver.FinishRequest)) func(*memstore.Store) func() driver.Store {
	return alter(func(s *altered) {
		s.finish = func(ctx context.Context, req driver.FinishRequest) (driver.Answer, error) {
			in(s, &req)
			return s.Store.FinishSlot(ctx, req)
		}
	})
}

func inspectingSlot(out func(run *driver.Run, now *time.Time)) func(*memstore.Store) func() driver.Store {
	return alter(func(s *altered) {
		s.inspectSlot = func(ctx context.Context, job, slot string) (driver.Run, time.Time, error) {
			run, now, err := s.Store.InspectSlot(ctx, job, slot)
			out(&run, &now)
			return run, now, err
		}
	})
}

func listingRuns(change func(runs []driver.Run, limit int) []driver.Run) func(*memstore.Store) func() driver.Store {
	return alter(func(s *altered) {
		s.runs = func(ctx context.Context, job string, limit int) ([]driver.Run, error) {
			runs, err := s.Store.Runs(ctx, job, driver.MaxRuns)
			return change(runs, limit), err
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

// runner gives a request the token and fence of whoever runs the slot.
func (s *altered) runner(job, slot string) driver.Run {
	run, _, _ := s.Store.InspectSlot(context.Background(), job, slot)
	return run
}

// again makes the lease of the request last exactly d, which no right store does.
func (s *altered) again(name, token string, d time.Duration) {
	ctx := context.Background()
	s.Store.Release(ctx, driver.ReleaseRequest{Name: name, Token: token})
	s.Store.Acquire(ctx, driver.AcquireRequest{Name: name, Token: token, TTL: d})
}
