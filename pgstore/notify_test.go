package pgstore

import (
	"testing"
	"time"

	"github.com/holdfastlock/holdfast/driver"
	"github.com/holdfastlock/holdfast/internal/pgtest"
)

func TestABrokenListenIsMadeAgain(t *testing.T) {
	s, server := newStore(t)
	wake, stop := s.Subscribe("job")
	defer stop()
	woken(t, wake, "the subscription is active")
	for range 3 {
		server.Exec(pgtest.User, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query = 'LISTEN holdfast'")
		woken(t, wake, "a release may have been missed meanwhile")
		req := request("job", time.Minute)
		mustAcquire(t, s, req)
		mustRelease(t, s, req)
		woken(t, wake, "the name was released")
	}
}

func TestAWithdrawalOfTheHolderWakes(t *testing.T) {
	s, _ := newStore(t)
	wake, stop := s.Subscribe("job")
	defer stop()
	woken(t, wake, "the subscription is active")
	req := request("job", time.Minute)
	mustAcquire(t, s, req)
	answer, err := s.Release(t.Context(), driver.ReleaseRequest{Name: "job", Token: req.Token, Tombstone: time.Minute})
	if err != nil || answer != driver.Mine {
		t.Fatalf("%v, %v", answer, err)
	}
	woken(t, wake, "the name was released")
}

// Through a pooler no LISTEN is sent, which would stay with a connection that
// serves others.
func TestThroughAPoolerNobodyListens(t *testing.T) {
	server := pgtest.Shared(t)
	pooler := pgtest.StartPooler(t, server)
	database := newDatabase(t, server)
	s := mustOpen(t, pooler.URL(database))
	wake, stop := s.Subscribe("job")
	defer stop()
	eventually(t, "the listener has looked", func() bool {
		return server.Value(database, "SELECT count(*)::text FROM pg_stat_activity WHERE query = 'SELECT pg_backend_pid()' AND datname = current_database() AND pid <> pg_backend_pid()") != "0"
	})
	req := request("job", time.Minute)
	mustAcquire(t, s, req)
	mustRelease(t, s, req)
	s.Close() // it has given up by now
	select {
	case <-wake:
		t.Error("woken through a pooler in transaction mode")
	default:
	}
	// What is heard of a channel that nobody listens to is nothing.
	if n := server.Value(database, "SELECT count(*)::text FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND datname = current_database()"); n != "0" {
		t.Errorf("%s connections were told to listen", n)
	}
}
