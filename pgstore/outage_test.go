package pgstore

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfastlock/holdfast/driver"
	"github.com/holdfastlock/holdfast/internal/pgtest"
)

// answered repeats a request until the server answers, as a locker does.
func answered[T any](t *testing.T, ask func() (T, error)) (answer T) {
	t.Helper()
	eventually(t, "the server answers", func() bool {
		t.Helper()
		var err error
		answer, err = ask()
		if err != nil && !errors.Is(err, driver.ErrUnreachable) {
			t.Fatal(err)
		}
		return err == nil
	})
	return answer
}

func TestALeaseSurvivesTheServersDeath(t *testing.T) {
	server := pgtest.Start(t, pgtest.Options{})
	s := mustOpen(t, newPlace(t, server))
	held, freed := request("held", time.Hour), request("freed", time.Hour)
	fence, before := mustAcquire(t, s, held), mustAcquire(t, s, freed)
	mustRelease(t, s, freed)

	server.Kill()
	_, err := s.Acquire(t.Context(), request("held", time.Hour))
	if !errors.Is(err, driver.ErrUnreachable) {
		t.Errorf("while it is down: %v, want ErrUnreachable", err)
	}
	_, err = mustOpen(t, server.URL(pgtest.User)).Inspect(t.Context(), "held")
	if !errors.Is(err, driver.ErrUnreachable) || driver.Unknown(err) {
		t.Errorf("a new connection while it is down: %v, want ErrUnreachable, and that nothing was sent", err)
	}
	server.Restart()

	again := answered(t, func() (driver.AcquireResult, error) { return s.Acquire(t.Context(), held) })
	if !again.Granted || again.Fence != fence {
		t.Errorf("the holder finds %+v, want its fence %d", again, fence)
	}
	if result := try(t, s, request("held", time.Hour)); result.Granted {
		t.Error("a held name was granted again")
	}
	if after := mustAcquire(t, s, request("freed", time.Hour)); after <= before {
		t.Errorf("fence %d after %d", after, before)
	}
}

func TestAnUnansweredRequestIsUnknown(t *testing.T) {
	server := pgtest.Start(t, pgtest.Options{})
	s := mustOpen(t, newPlace(t, server))
	req := request("job", time.Hour)
	mustAcquire(t, s, req)
	server.Pause()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	result, err := s.Acquire(ctx, req)
	if result.Granted || !errors.Is(err, context.DeadlineExceeded) || !driver.Unknown(err) {
		t.Errorf("granted %v, %v, want the context's error and an unknown outcome", result.Granted, err)
	}
	server.Resume()
	answered(t, func() (driver.AcquireResult, error) { return s.Acquire(t.Context(), req) })
}

func TestCloseDoesNotWaitForAServerThatDoesNotAnswer(t *testing.T) {
	server := pgtest.Start(t, pgtest.Options{})
	s := mustOpen(t, newPlace(t, server))
	mustAcquire(t, s, request("job", time.Hour))
	wake, stop := s.Subscribe("job")
	defer stop()
	woken(t, wake, "the subscription is active")
	server.Pause()
	defer server.Resume()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := s.Inspect(ctx, "job"); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		s.Close()
	}()
	select {
	case <-closed:
	case <-time.After(10 * time.Second): // the client alone would take 15
		t.Error("it waits")
		server.Resume()
		<-closed
	}
}

// hang makes an acquire wait for a lock of another transaction, for long.
func hang(t *testing.T, s *Store, server *pgtest.Server) (req driver.AcquireRequest, done <-chan outcome) {
	t.Helper()
	req = request(driver.NewToken("name"), time.Hour)
	tx, err := s.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tx.Rollback(context.WithoutCancel(t.Context())) })
	if _, err := tx.Exec(t.Context(), "LOCK TABLE holdfast_lease IN EXCLUSIVE MODE"); err != nil {
		t.Fatal(err)
	}
	// Only the wait for a row that is guarded is limited.
	done = acquireLater(t.Context(), s, req)
	eventually(t, "the acquire waits", func() bool { return blocked(t, server, "Grants the name") || len(done) > 0 })
	return req, done
}

func TestWhatEndsAStatementLeavesItUnknown(t *testing.T) {
	for _, how := range []string{"pg_cancel_backend", "pg_terminate_backend"} {
		s, server := newStore(t)
		_, done := hang(t, s, server)
		server.Exec(pgtest.User, "SELECT "+how+"(pid) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%Grants the name%'")
		got := <-done
		if !errors.Is(got.err, driver.ErrUnreachable) || !driver.Unknown(got.err) {
			t.Errorf("%s: %+v, want ErrUnreachable and an unknown outcome", how, got)
		}
		if state, err := s.Inspect(t.Context(), "other"); err != nil {
			t.Errorf("the next request: %+v, %v", state, err)
		}
	}
}

func TestTerminatedConnectionsAreReplaced(t *testing.T) {
	s, server := newStore(t)
	req := request("job", time.Hour)
	fence := mustAcquire(t, s, req)
	server.Exec(pgtest.User, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'holdfast'")
	again := answered(t, func() (driver.AcquireResult, error) { return s.Acquire(t.Context(), req) })
	if !again.Granted || again.Fence != fence {
		t.Errorf("the holder finds %+v, want its fence %d", again, fence)
	}
}

func TestAStandbyIsRefused(t *testing.T) {
	server := pgtest.Start(t, pgtest.Options{})
	place := newPlace(t, server)
	req := request("job", time.Hour)
	mustAcquire(t, mustOpen(t, place), req)
	server.End()
	signal := filepath.Join(server.DataDir(), "standby.signal")
	if err := os.WriteFile(signal, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	server.Restart()
	s := mustOpen(t, place)
	result, err := s.Acquire(t.Context(), req)
	if result.Granted || !errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), "standby") {
		t.Errorf("granted %v, %v, want ErrRefused that speaks of a standby", result.Granted, err)
	}
	if state, err := s.Inspect(t.Context(), "job"); err != nil || len(state.Holders) != 1 {
		t.Errorf("a standby can still be read: %+v, %v", state, err)
	}
}

func TestAnIsolationLevelOfTheUserDoesNoHarm(t *testing.T) {
	server := pgtest.Shared(t)
	database := newDatabase(t, server)
	server.Exec(database, "ALTER DATABASE "+database+" SET default_transaction_isolation = serializable")
	s := mustOpen(t, server.URL(database))
	for range 10 {
		var all [8]<-chan outcome
		for i := range all {
			all[i] = acquireLater(t.Context(), s, request("job", time.Hour))
		}
		granted := ""
		for _, done := range all {
			got := <-done
			if got.err != nil || got.result.Granted && granted != "" {
				t.Fatalf("%+v, after a grant: %v", got, granted != "")
			}
			if got.result.Granted {
				state, _ := s.Inspect(t.Context(), "job")
				granted = state.Holders[0].Token
			}
		}
		mustRelease(t, s, driver.AcquireRequest{Name: "job", Token: granted})
	}
}

func TestAClosedStoreSaysSo(t *testing.T) {
	s, _ := newStore(t)
	wake, stop := s.Subscribe("job")
	woken(t, wake, "the subscription is active")
	s.Close()
	s.Close()
	stop()
	if _, err := s.Inspect(t.Context(), "job"); !errors.Is(err, driver.ErrMisconfigured) {
		t.Errorf("after Close: %v, want ErrMisconfigured", err)
	}
	_, stop = s.Subscribe("job")
	stop()
}
