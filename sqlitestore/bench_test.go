package sqlitestore

import (
	"fmt"
	"testing"
	"time"

	"github.com/holdfastlock/holdfast/driver"
)

// BenchmarkAcquireRelease takes and releases names nobody else wants: two
// commits, each synced to the disk.
func BenchmarkAcquireRelease(b *testing.B) {
	s, err := Open(b.Context(), b.TempDir()+"/locks.db")
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	for b.Loop() {
		req := request("job", time.Minute)
		if _, err := s.Acquire(b.Context(), req); err != nil {
			b.Fatal(err)
		}
		if _, err := s.Release(b.Context(), driver.ReleaseRequest{Name: req.Name, Token: req.Token}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkAcquireHeld asks for a name that somebody holds: no write.
func BenchmarkAcquireHeld(b *testing.B) {
	s, err := Open(b.Context(), b.TempDir()+"/locks.db")
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Acquire(b.Context(), request("job", time.Hour)); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if result, err := s.Acquire(b.Context(), request("job", time.Hour)); err != nil || result.Granted {
			b.Fatal(result, err)
		}
	}
}

// BenchmarkExtend1000 extends a thousand leases in one call: one commit.
func BenchmarkExtend1000(b *testing.B) {
	s, err := Open(b.Context(), b.TempDir()+"/locks.db")
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	var reqs []driver.ExtendRequest
	for i := range 1000 {
		req := request(fmt.Sprint("job ", i), time.Hour)
		if _, err := s.Acquire(b.Context(), req); err != nil {
			b.Fatal(err)
		}
		reqs = append(reqs, driver.ExtendRequest{Name: req.Name, Token: req.Token, TTL: time.Hour})
	}
	for b.Loop() {
		for _, r := range s.Extend(b.Context(), reqs) {
			if r.Answer != driver.Mine {
				b.Fatal(r)
			}
		}
	}
}
