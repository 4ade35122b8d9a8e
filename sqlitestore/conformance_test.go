package sqlitestore

import (
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfastlock/holdfast/driver"
	"github.com/holdfastlock/holdfast/drivertest"
)

func TestConformance(t *testing.T) {
	drivertest.Run(t, func(t *testing.T) drivertest.Backend { return backend(t, readNow, nil) })
}

func TestConformanceWithAMovedClock(t *testing.T) {
	drivertest.Run(t, func(t *testing.T) drivertest.Backend {
		var offset atomic.Int64 // microseconds
		now := func() moment {
			m := readNow()
			m.up += offset.Load()
			m.wall += offset.Load()
			return m
		}
		return backend(t, now, func(d time.Duration) { offset.Add(d.Microseconds()) })
	})
}

func backend(t *testing.T, now func() moment, advance func(time.Duration)) drivertest.Backend {
	path := tempPath(t)
	var stores []*Store
	closeAll := func(t *testing.T) {
		for _, s := range stores {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
		stores = nil
	}
	return drivertest.Backend{
		Open: func(t *testing.T) driver.Store {
			s := mustOpenAt(t, path, now)
			stores = append(stores, s)
			return s
		},
		Advance: advance,
		Restart: closeAll,
		Wipe:    func(t *testing.T) { wipe(t, stores[0]) },
	}
}

// wipe loses all that the file knows, as if it had been deleted; the handles
// stay in use.
func wipe(t *testing.T, s *Store) {
	t.Helper()
	if _, err := s.db.Exec(`DELETE FROM lease; DELETE FROM tombstone; DELETE FROM slot`); err != nil {
		t.Fatal(err)
	}
}

func TestFencesIncreaseWhenTheFileIsDeleted(t *testing.T) {
	path := tempPath(t)
	first, err := Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	before := mustAcquire(t, first, request("job", time.Minute))
	first.Close()
	for _, suffix := range []string{"", "-wal", "-shm", "-wake"} {
		os.Remove(path + suffix)
	}
	after := mustAcquire(t, mustOpen(t, path), request("job", time.Minute))
	if after <= before {
		t.Errorf("fence %d after %d", after, before)
	}
}
