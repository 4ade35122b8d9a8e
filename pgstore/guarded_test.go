package pgstore

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfastlock/holdfast/driver"
)

type outcome struct {
	result driver.AcquireResult
	err    error
}

// acquireLater acquires in the background.
func acquireLater(ctx context.Context, s *Store, req driver.AcquireRequest) <-chan outcome {
	done := make(chan outcome, 1)
	go func() {
		result, err := s.Acquire(ctx, req)
		done <- outcome{result, err}
	}()
	return done
}

func TestAGuardDoesNotStopTheHolder(t *testing.T) {
	s, _ := newStore(t)
	req := request("job", time.Minute)
	fence := mustAcquire(t, s, req)
	guard(t, s, "job")
	if again := mustAcquire(t, s, req); again != fence {
		t.Errorf("acquired again with fence %d, want %d", again, fence)
	}
	extend := driver.ExtendRequest{Name: req.Name, Token: req.Token, TTL: time.Hour}
	if got := s.Extend(t.Context(), []driver.ExtendRequest{extend})[0]; got.Answer != driver.Mine || got.Err != nil {
		t.Errorf("extend: %v, %v", got.Answer, got.Err)
	}
	if result := try(t, s, request("job", time.Minute)); result.Granted || len(result.State.Holders) != 1 {
		t.Errorf("another while it is held: %+v", result)
	}
	mustRelease(t, s, req)
}

func TestAnEndedLeaseIsTakenWhenItsGuardEnds(t *testing.T) {
	s, server := newStore(t)
	first, second := request("job", time.Minute), request("job", time.Minute)
	before := mustAcquire(t, s, first)
	tx := guard(t, s, "job")
	expire(t, s, "job")

	// As long as the guard lasts it is refused, in the name of the last holder.
	result := try(t, s, second)
	if result.Granted || len(result.State.Holders) != 1 {
		t.Fatalf("while it is guarded: %+v", result)
	}
	if h := result.State.Holders[0]; h.Token != first.Token || h.Fence != before || h.Left != 0 {
		t.Errorf("in the way is %+v, want the last holder with nothing left", h)
	}

	done := acquireLater(t.Context(), s, second)
	eventually(t, "the acquire waits", func() bool { return blocked(t, server, "Grants the name") || len(done) > 0 })
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := <-done
	if got.err != nil {
		t.Fatal(got.err)
	}
	if !got.result.Granted { // it had given up just before
		got.result.Fence = mustAcquire(t, s, second)
	}
	if got.result.Fence <= before {
		t.Errorf("fence %d after %d", got.result.Fence, before)
	}
	state, err := s.Inspect(t.Context(), "job")
	if err != nil || len(state.Holders) != 1 || state.Holders[0].Left < 55*time.Second {
		t.Errorf("the time that it waited is missing from the lease: %+v, %v", state, err)
	}
}

func TestAReleasedNameIsTakenWhenItsGuardEnds(t *testing.T) {
	s, _ := newStore(t)
	first := request("job", time.Minute)
	mustAcquire(t, s, first)
	tx := guard(t, s, "job")
	mustRelease(t, s, first)
	if result := try(t, s, request("job", time.Minute)); result.Granted || len(result.State.Holders) != 0 {
		t.Errorf("while it is guarded: %+v", result)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	mustAcquire(t, s, request("job", time.Minute))
}

func TestAnAcquireThatWaitsForAGuardEndsWithItsContext(t *testing.T) {
	s, server := newStore(t)
	mustAcquire(t, s, request("job", time.Minute))
	guard(t, s, "job")
	expire(t, s, "job")
	ctx, cancel := context.WithCancel(t.Context())
	done := acquireLater(ctx, s, request("job", time.Minute))
	eventually(t, "the acquire waits", func() bool { return blocked(t, server, "Grants the name") || len(done) > 0 })
	cancel()
	if got := <-done; got.err != nil && (!errors.Is(got.err, context.Canceled) || !driver.Unknown(got.err)) {
		t.Errorf("error %v, want the context's, and an unknown outcome", got.err)
	}
	short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	result, err := s.Acquire(short, request("job", time.Minute))
	if result.Granted || err != nil && !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("granted %v, error %v, want the context's", result.Granted, err)
	}
	eventually(t, "nobody waits at the server any more", func() bool { return !blocked(t, server, "Grants the name") })
}

// A caller has gone while its request waits at the server: whether the request
// comes through before or after, the name is not kept from others.
func TestARequestUnderWayIsWithdrawn(t *testing.T) {
	s, server := newStore(t)
	mustAcquire(t, s, request("job", time.Minute))
	tx := guard(t, s, "job")
	expire(t, s, "job")
	late := request("job", time.Minute)
	done := acquireLater(t.Context(), s, late)
	eventually(t, "the acquire waits", func() bool { return blocked(t, server, "Grants the name") || len(done) > 0 })

	limited, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	answer, err := s.Release(limited, driver.ReleaseRequest{Name: "job", Token: late.Token, Tombstone: time.Minute})
	if err != nil || answer != driver.Gone {
		t.Fatalf("release while the name is guarded: %v, %v", answer, err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := <-done; got.result.Granted {
		t.Error("a withdrawn request was granted")
	}
	if _, err := s.Acquire(t.Context(), late); !errors.Is(err, driver.ErrWithdrawn) {
		t.Errorf("the token again: %v, want ErrWithdrawn", err)
	}
	mustAcquire(t, s, request("job", time.Minute))
}

// The same on a name that nobody ever held, so that there is no row to wait for.
func TestAFirstRequestUnderWayIsWithdrawn(t *testing.T) {
	s, _ := newStore(t)
	for range 100 {
		late := request(driver.NewToken("name"), time.Minute)
		done := acquireLater(t.Context(), s, late)
		release := driver.ReleaseRequest{Name: late.Name, Token: late.Token, Tombstone: time.Minute}
		if _, err := s.Release(t.Context(), release); err != nil {
			t.Fatal(err)
		}
		if got := <-done; got.err != nil && !errors.Is(got.err, driver.ErrWithdrawn) {
			t.Fatal(got.err)
		}
		if state, err := s.Inspect(t.Context(), late.Name); err != nil || len(state.Holders) != 0 {
			t.Fatalf("left behind: %+v, %v", state, err)
		}
	}
}

func TestTombstonesDoNotPileUp(t *testing.T) {
	s, _ := newStore(t)
	for range 20 {
		release := driver.ReleaseRequest{Name: "job", Token: driver.NewToken("x"), Tombstone: time.Microsecond}
		if _, err := s.Release(t.Context(), release); err != nil {
			t.Fatal(err)
		}
	}
	var n int
	if err := s.pool.QueryRow(t.Context(), "SELECT count(*) FROM holdfast_lease, jsonb_each(withdrawn)").Scan(&n); err != nil || n > 1 {
		t.Errorf("%d tombstones are kept, %v, want 1", n, err)
	}
}
