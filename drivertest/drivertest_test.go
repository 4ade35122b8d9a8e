package drivertest

import (
	"context"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfastlock/holdfast/driver"
	"github.com/holdfastlock/holdfast/memstore"
)

func TestMain(m *testing.M) {
	if os.Getenv(wrongStore) != "" {
		patience = time.Second // a wrong store makes the suite wait for what never comes
	}
	goleak.VerifyTestMain(m)
}

// inMemory is the backend of one memstore, with all that can be done to it.
func inMemory(store *memstore.Store) Backend {
	return Backend{
		Open:    func(*testing.T) driver.Store { return store },
		Advance: store.Advance,
		Restart: func(*testing.T) {},
		Wipe:    func(*testing.T) { store.Wipe() },
	}
}

func TestARightStorePasses(t *testing.T) {
	Run(t, func(*testing.T) Backend { return inMemory(memstore.New()) })
}

func TestARightStorePassesInRealTime(t *testing.T) {
	Run(t, func(*testing.T) Backend {
		backend := inMemory(memstore.New())
		backend.Advance = nil
		return backend
	})
}

// little claims nothing, offers no extra, and is exclusive only.
type little struct{ driver.Store }

func (little) Capabilities() driver.Capabilities { return driver.Capabilities{} }

func (s little) Acquire(ctx context.Context, req driver.AcquireRequest) (driver.AcquireResult, error) {
	if req.Mode == driver.Shared {
		return driver.AcquireResult{}, &driver.Error{Kind: driver.ErrUnsupported}
	}
	return s.Store.Acquire(ctx, req)
}

func TestAStoreThatClaimsLittlePasses(t *testing.T) {
	Run(t, func(*testing.T) Backend {
		store := little{memstore.New()}
		return Backend{Open: func(*testing.T) driver.Store { return store }}
	})
}
