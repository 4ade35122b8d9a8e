package pgstore

import (
	"fmt"
	"testing"
	"time"

	"github.com/holdfastlock/holdfast/driver"
	"github.com/holdfastlock/holdfast/internal/pgtest"
)

// forModes runs a benchmark with prepared statements, as on a connection to the
// server itself, and with those that are sent anew, as through a pooler; the
// server syncs every commit.
func forModes(b *testing.B, run func(b *testing.B, s *Store)) {
	server := pgtest.Start(b, pgtest.Options{Sync: true})
	if err := server.Process.Exec(pgtest.User, Schema()); err != nil {
		b.Fatal(err)
	}
	for _, mode := range []string{"cache_statement", "exec"} {
		b.Run(mode, func(b *testing.B) {
			s, err := Open(server.URL(pgtest.User)+"&default_query_exec_mode="+mode, Config{})
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			run(b, s)
		})
	}
}

func BenchmarkAcquireAndRelease(b *testing.B) {
	forModes(b, func(b *testing.B, s *Store) {
		for b.Loop() {
			req := request("job", time.Minute)
			if result, err := s.Acquire(b.Context(), req); err != nil || !result.Granted {
				b.Fatal(result, err)
			}
			if _, err := s.Release(b.Context(), driver.ReleaseRequest{Name: "job", Token: req.Token}); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkAcquireOfAHeldName(b *testing.B) {
	forModes(b, func(b *testing.B, s *Store) {
		if _, err := s.Acquire(b.Context(), request("held", time.Hour)); err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			if result, err := s.Acquire(b.Context(), request("held", time.Hour)); err != nil || result.Granted {
				b.Fatal(result, err)
			}
		}
	})
}

func BenchmarkExtendOfAThousandLeases(b *testing.B) {
	forModes(b, func(b *testing.B, s *Store) {
		if _, err := s.pool.Exec(b.Context(), "TRUNCATE holdfast_lease"); err != nil {
			b.Fatal(err)
		}
		reqs := make([]driver.ExtendRequest, 1000)
		for i := range reqs {
			req := request(fmt.Sprintf("%s:%d", b.Name(), i), time.Hour)
			if result, err := s.Acquire(b.Context(), req); err != nil || !result.Granted {
				b.Fatal(result, err)
			}
			reqs[i] = driver.ExtendRequest{Name: req.Name, Token: req.Token, TTL: time.Hour}
		}
		for b.Loop() {
			for _, result := range s.Extend(b.Context(), reqs) {
				if result.Err != nil || result.Answer != driver.Mine {
					b.Fatal(result)
				}
			}
		}
	})
}
