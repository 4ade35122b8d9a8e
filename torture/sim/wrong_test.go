package sim

import (
	"context"
	"testing"
	"time"

	"github.com/holdfastlock/holdfast/driver"
)

// Each of these stores breaks one promise, now and then.

type blindRelease struct{ Store }

func (s blindRelease) Release(ctx context.Context, req driver.ReleaseRequest) (driver.Answer, error) {
	state, err := s.Inspect(ctx, req.Name)
	if err == nil && len(state.Holders) > 0 {
		req.Token = state.Holders[0].Token
	}
	return s.Store.Release(ctx, req)
}

type shortLease struct{ Store }

func (s shortLease) Acquire(ctx context.Context, req driver.AcquireRequest) (driver.AcquireResult, error) {
	req.TTL -= req.TTL / 10
	return s.Store.Acquire(ctx, req)
}

type forgetsReleases struct{ Store }

func (s forgetsReleases) Release(context.Context, driver.ReleaseRequest) (driver.Answer, error) {
	return driver.Mine, nil
}

type lowFence struct{ Store }

func (s lowFence) Acquire(ctx context.Context, req driver.AcquireRequest) (driver.AcquireResult, error) {
	result, err := s.Store.Acquire(ctx, req)
	result.Fence /= int64(time.Second / time.Microsecond)
	return result, err
}

type mute struct{ Store }

func (s mute) OpenInbox(listener driver.Listener) driver.Inbox {
	listener.Handed = func(driver.HandOff) {}
	return s.Store.OpenInbox(listener)
}

func TestAStoreThatBreaksAPromiseIsCaught(t *testing.T) {
	for kind, wrong := range map[string]func(Store) Store{
		"exclusion":      func(s Store) Store { return blindRelease{s} },
		"left":           func(s Store) Store { return forgetsReleases{s} },
		"fence repeated": func(s Store) Store { return lowFence{s} },
		"fence order":    func(s Store) Store { return lowFence{s} },
		"hand-off":       func(s Store) Store { return mute{s} },
	} {
		t.Run(kind, func(t *testing.T) { wantCaught(t, kind, wrong) })
	}
	t.Run("short lease", func(t *testing.T) {
		wantCaught(t, "exclusion", func(s Store) Store { return shortLease{s} })
	})
}

// wantCaught wants a violation of the kind within a few seeds.
func wantCaught(t *testing.T, kind string, wrong func(Store) Store) {
	t.Helper()
	for seed := range uint64(200) {
		for _, v := range simulate(t, seed, Options{Break: wrong}).Violations {
			if v.Kind == kind {
				return
			}
		}
	}
	t.Errorf("no seed of 200 led to a violation of the kind %q", kind)
}
