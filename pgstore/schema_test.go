package pgstore

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfastlock/holdfast/driver"
	"github.com/holdfastlock/holdfast/internal/pgtest"
)

func TestTheSchemaIsAppliedAtOnceAndAgain(t *testing.T) {
	server := pgtest.Shared(t)
	place := server.URL(server.Database())
	s := mustOpen(t, place)
	done := make(chan error, 8)
	for range cap(done) {
		go func() { done <- s.ApplySchema(t.Context()) }()
	}
	for range cap(done) {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	mustAcquire(t, s, request("job", time.Minute))
	if err := s.ApplySchema(t.Context()); err != nil {
		t.Fatal(err)
	}
	if result := try(t, s, request("job", time.Minute)); result.Granted {
		t.Error("to apply the schema again has freed a name")
	}
}

func TestWithoutTablesItIsSaidHowToMakeThem(t *testing.T) {
	server := pgtest.Shared(t)
	_, err := mustOpen(t, server.URL(pgtest.User)+"&search_path=nowhere").Acquire(t.Context(), request("job", time.Minute))
	if !errors.Is(err, driver.ErrMisconfigured) || !strings.Contains(err.Error(), "holdfast schema apply") {
		t.Errorf("got %v", err)
	}
}

func TestABadURLIsNotRepeated(t *testing.T) {
	for _, url := range []string{"postgres://me:hunter2/x@host/db", "host=x password=hunter2 port=y", "://hunter2"} {
		_, err := Open(url, Config{})
		if !errors.Is(err, driver.ErrMisconfigured) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", url, err)
		}
		_, err = Open("postgres://host/db", Config{ListenURL: url})
		if !errors.Is(err, driver.ErrMisconfigured) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("ListenURL %s: %v", url, err)
		}
	}
}

func TestRowsThatNobodyNeedsAreRemoved(t *testing.T) {
	s, _ := newStore(t)
	long := time.Now().Add(-48 * time.Hour).UnixMicro()
	old := map[string]driver.AcquireRequest{}
	for _, name := range []string{"released", "ended", "held", "withdrawn", "guarded"} {
		req := request(name, 3*time.Hour)
		mustAcquire(t, s, req)
		old[name] = req
	}
	for _, name := range []string{"released", "withdrawn", "guarded"} {
		mustRelease(t, s, old[name])
	}
	expire(t, s, "ended")
	_, err := s.Release(t.Context(), driver.ReleaseRequest{Name: "withdrawn", Token: "gone", Tombstone: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	mustExec(t, s, "UPDATE holdfast_lease SET fence = $1", long)
	mustAcquire(t, s, request("new", time.Hour))
	guard(t, s, "guarded")

	s.sweep(t.Context())
	rows, err := s.pool.Query(t.Context(), "SELECT name FROM holdfast_lease ORDER BY name")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var left []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			t.Fatal(err)
		}
		left = append(left, name)
	}
	if got := strings.Join(left, " "); got != "guarded held new withdrawn" {
		t.Errorf("left are %q", got)
	}
}
