package drivertest

import (
	"context"

	"github.com/holdfastlock/holdfast/driver"
	"github.com/holdfastlock/holdfast/memstore"
)

// wrongRaises are mistakes with raised fences.
var wrongRaises = map[string]wrong{
	"raise does nothing": {
		raising(func(context.Context, *wrongRaiser, driver.RaiseRequest) (driver.Answer, error) {
			return driver.Mine, nil
		}),
		[]string{"ARaisedFenceIsTheGrants", "ARaisedFenceIsKeptAcrossExpiry"},
	},
	"raise adds": {
		raising(func(ctx context.Context, s *wrongRaiser, req driver.RaiseRequest) (driver.Answer, error) {
			s.added++
			req.Last += s.added
			return s.Store.RaiseFence(ctx, req)
		}),
		[]string{"ARaisedFenceIsTheGrants", "AFenceIsNeverLowered"},
	},
	"raise does not compare": {
		raising(func(ctx context.Context, s *wrongRaiser, req driver.RaiseRequest) (driver.Answer, error) {
			if h := s.holder(req.Name); h.Token != "" {
				req.Token = h.Token
			}
			return s.Store.RaiseFence(ctx, req)
		}),
		[]string{"RaiseComparesTheToken"},
	},
	"raise ends nowhere": {
		raising(func(_ context.Context, s *wrongRaiser, req driver.RaiseRequest) (driver.Answer, error) {
			return s.Store.RaiseFence(context.Background(), req)
		}),
		[]string{"RaiseRefusesWhatAcquireRefuses"},
	},
}

// wrongRaiser is a right store with another RaiseFence.
type wrongRaiser struct {
	*altered
	raise func(context.Context, *wrongRaiser, driver.RaiseRequest) (driver.Answer, error)
	added int64
}

func (s *wrongRaiser) RaiseFence(ctx context.Context, req driver.RaiseRequest) (driver.Answer, error) {
	return s.raise(ctx, s, req)
}

func raising(raise func(context.Context, *wrongRaiser, driver.RaiseRequest) (driver.Answer, error)) func(*memstore.Store) func() driver.Store {
	return func(right *memstore.Store) func() driver.Store {
		s := &wrongRaiser{altered: alter(func(*altered) {})(right)().(*altered), raise: raise}
		return func() driver.Store { return s }
	}
}
