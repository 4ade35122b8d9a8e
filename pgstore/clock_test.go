package pgstore

import (
	"fmt"
	"testing"
	"time"

	"github.com/holdfastlock/holdfast/driver"
	"github.com/holdfastlock/holdfast/internal/pgtest"
)

// movedClock is a clock of the server that is far from ours, and can be moved.
// It stands before the real one in a search_path that says so.
const movedClock = `
CREATE TABLE clock (moved interval NOT NULL);
INSERT INTO clock VALUES ('-11 years');
CREATE FUNCTION clock_timestamp() RETURNS timestamptz VOLATILE LANGUAGE sql
AS 'SELECT pg_catalog.clock_timestamp() + moved FROM public.clock';
`

func moveClock(server *pgtest.Server, database string, d time.Duration) {
	server.Exec(database, fmt.Sprintf("UPDATE clock SET moved = moved + interval '%d microseconds'", d.Microseconds()))
}

// stoppedClock is a clock of the server that only goes when it is told to.
const stoppedClock = `
CREATE TABLE clock (now timestamptz NOT NULL);
INSERT INTO clock VALUES (pg_catalog.clock_timestamp());
CREATE FUNCTION clock_timestamp() RETURNS timestamptz VOLATILE LANGUAGE sql
AS 'SELECT now FROM public.clock';
`

// The clocks of computers are cut to microseconds: if a lease ended in the same
// one in which the next may begin, two would hold the name for a part of it.
func TestANameIsFreeOnlyWhenItsEndIsPast(t *testing.T) {
	server := pgtest.Shared(t)
	database := newDatabase(t, server)
	server.Exec(database, stoppedClock)
	s := mustOpen(t, server.URL(database)+"&search_path=public,pg_catalog")
	held, next := request("job", time.Second), request("job", time.Second)
	mustAcquire(t, s, held)

	server.Exec(database, "UPDATE clock SET now = now + interval '1 second'")
	if result := try(t, s, next); result.Granted {
		t.Error("granted in the last microsecond of a lease")
	}
	extend := []driver.ExtendRequest{{Name: held.Name, Token: held.Token, TTL: time.Microsecond / 2}}
	if got := s.Extend(t.Context(), extend)[0]; got.Answer != driver.Mine {
		t.Errorf("extended in its last microsecond: %+v, want mine", got)
	}
	if result := try(t, s, next); result.Granted {
		t.Error("granted in the last microsecond")
	}
	server.Exec(database, "UPDATE clock SET now = now + interval '2 microseconds'")
	if got := s.Extend(t.Context(), extend)[0]; got.Answer != driver.Gone {
		t.Errorf("extended after its end: %+v, want gone", got)
	}
	mustAcquire(t, s, next)
}

// A server's clock that is set back does not bring numbers back.
func TestFencesIncreaseWhenTheServersClockIsSetBack(t *testing.T) {
	server := pgtest.Shared(t)
	database := newDatabase(t, server)
	server.Exec(database, movedClock)
	s := mustOpen(t, server.URL(database)+"&search_path=public,pg_catalog")
	first := request("job", time.Minute)
	first.Fences = 16
	before := first.Last(mustAcquire(t, s, first))
	mustRelease(t, s, first)
	moveClock(server, database, -240*time.Hour)
	if after := mustAcquire(t, s, request("job", time.Minute)); after != before+1 {
		t.Errorf("fence %d after %d, want the next", after, before)
	}
}

func TestAgeCountsFromTheLastGrant(t *testing.T) {
	server := pgtest.Shared(t)
	database := newDatabase(t, server)
	server.Exec(database, movedClock)
	s := mustOpen(t, server.URL(database)+"&search_path=public,pg_catalog")
	first := request("job", time.Minute)
	mustAcquire(t, s, first)
	mustRelease(t, s, first)
	moveClock(server, database, time.Hour)
	mustAcquire(t, s, request("job", time.Minute))
	if state, err := s.Inspect(t.Context(), "job"); err != nil || state.Holders[0].Age >= time.Hour {
		t.Errorf("granted just now: %+v, %v", state, err)
	}
}
