package memstore

import (
	"context"
	"time"

	"github.com/holdfastlock/holdfast/driver"
)

// RaiseFence implements driver.FenceRaiser.
func (s *Store) RaiseFence(ctx context.Context, req driver.RaiseRequest) (driver.Answer, error) {
	if err := driver.CheckName(req.Name); err != nil {
		return 0, err
	}
	return carryOut(ctx, s, "raise", func(now time.Time) (driver.Answer, error) {
		return s.current(req.Name, now).raise(req), nil
	})
}

func (l *lock) raise(req driver.RaiseRequest) driver.Answer {
	answer := l.compare(req.Token)
	if answer == driver.Mine {
		h := l.find(req.Token)
		h.fence = max(h.fence, req.Last)
		l.fence = max(l.fence, h.fence)
	}
	return answer
}
