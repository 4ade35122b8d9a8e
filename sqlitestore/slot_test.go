package sqlitestore

import (
	"database/sql"
	"fmt"
	"sync"
	"testing"
	"time"

	sqlite "github.com/ncruces/go-sqlite3/driver"

	"github.com/holdfastlock/holdfast/driver"
)

func mustBegin(t *testing.T, s *Store, lease driver.AcquireRequest, fence int64, slot string) {
	t.Helper()
	result, err := s.BeginSlot(t.Context(), driver.BeginRequest{Job: lease.Name, Slot: slot, Token: lease.Token, Fence: fence})
	if err != nil || result.Verdict != driver.Begun {
		t.Fatalf("BeginSlot %q: %+v, %v", slot, result, err)
	}
}

// TestAFileOfTheFirstFormatIsBroughtUpToDate, once, by whichever of many handles
// comes first, with the leases that it has.
func TestAFileOfTheFirstFormatIsBroughtUpToDate(t *testing.T) {
	path := tempPath(t)
	old, err := sqlite.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	lease := request("job", time.Hour)
	const fence = 42
	end := readNow().after(time.Hour)
	held := row{name: "job", token: lease.Token, fence: fence, fenced: true, end: end, since: readNow().wall}
	if _, err := old.Exec(schema1); err != nil {
		t.Fatal(err)
	}
	if _, err := old.Exec(writeRow, held.values()...); err != nil {
		t.Fatal(err)
	}
	old.Close()

	var opened sync.WaitGroup
	for range 8 {
		opened.Go(func() {
			if s, err := Open(t.Context(), path); err != nil {
				t.Error(err)
			} else {
				s.Close()
			}
		})
	}
	opened.Wait()
	s := mustOpen(t, path)
	if got := mustAcquire(t, s, lease); got != fence {
		t.Errorf("the lease has fence %d, want %d", got, fence)
	}
	mustBegin(t, s, lease, fence, "s")
	var version int
	if err := s.db.QueryRow(`PRAGMA user_version`).Scan(&version); err != nil || version != schemaVersion {
		t.Errorf("format %d, %v", version, err)
	}
}

func TestForgottenSlotsAreRemoved(t *testing.T) {
	now := readNow()
	s := mustOpenAt(t, tempPath(t), func() moment { return now })
	lease := request("job", 3*driver.RunningKeep)
	fence := mustAcquire(t, s, lease)
	const slots = 20
	for i := range slots {
		mustBegin(t, s, lease, fence, fmt.Sprint(i))
		answer, err := s.FinishSlot(t.Context(), driver.FinishRequest{
			Job: "job", Slot: fmt.Sprint(i), Token: lease.Token, Fence: fence, Keep: time.Hour,
		})
		if err != nil || answer != driver.Mine {
			t.Fatal(answer, err)
		}
	}
	now = now.after(time.Hour + time.Second)
	mustBegin(t, s, lease, fence, "last")
	left, err := read(t.Context(), s, func(db *sql.DB, _ moment) (n int, err error) {
		err = db.QueryRow(`SELECT count(*) FROM slot`).Scan(&n)
		return n, err
	})
	if err != nil || left != 1 {
		t.Errorf("%d rows are left, %v, want 1", left, err)
	}
}
