package supervise

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfastlock/holdfast"
)

const (
	ttl   = 30 * time.Second
	grace = 5 * time.Second
	slack = time.Second
)

// fakeLease is a lease whose deadline the test moves.
type fakeLease struct {
	ctx      context.Context
	lose     context.CancelCauseFunc
	mu       sync.Mutex
	deadline time.Time
}

func newLease() *fakeLease {
	l := &fakeLease{deadline: time.Now().Add(ttl)}
	l.ctx, l.lose = context.WithCancelCause(context.Background())
	return l
}

func (l *fakeLease) Context() context.Context { return l.ctx }

func (l *fakeLease) Deadline() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.deadline
}

func (l *fakeLease) renew() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.deadline = time.Now().Add(ttl)
}

// fakeGroup notes when it was signalled, and ends when it is killed.
type fakeGroup struct {
	began  time.Time
	exited chan int
	mu     sync.Mutex
	notes  []string
	gone   bool
}

func (g *fakeGroup) signal(sig syscall.Signal) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.gone {
		return
	}
	if sig != syscall.SIGCONT {
		g.notes = append(g.notes, fmt.Sprintf("%v at %v", sig, time.Since(g.began)))
	}
	if sig == syscall.SIGKILL {
		g.gone = true
		g.exited <- SignalCode(sig)
	}
}

func (g *fakeGroup) alive() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return !g.gone
}

// supervised runs a command that does not end by itself under the lease, and
// returns what happened to it.
func supervised(lease Lease) (notes []string, outcome Outcome) {
	g := &fakeGroup{began: time.Now(), exited: make(chan int, 1)}
	w := &watch{group: g, exited: g.exited, plan: plan{grace: grace, slack: slack}}
	outcome = w.run(lease)
	return g.notes, outcome
}

func TestTheGroupIsGoneBeforeALeaseThatIsNotRenewedEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		notes, outcome := supervised(newLease())
		want := []string{"terminated at 24s", "killed at 29s"}
		if !slices.Equal(notes, want) || !outcome.Lost || outcome.Code != 137 {
			t.Errorf("got %q and %+v, want %q and code 137, lost", notes, outcome, want)
		}
	})
}

func TestRenewalsPutTheStopOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lease := newLease()
		go func() {
			for range 10 {
				time.Sleep(ttl / 3)
				lease.renew()
			}
		}()
		notes, _ := supervised(lease)
		want := []string{"terminated at 2m4s", "killed at 2m9s"}
		if !slices.Equal(notes, want) {
			t.Errorf("got %q, want %q: 10 renewals each 10s, then none", notes, want)
		}
	})
}

func TestALossIsATermAtOnceAndAKillAfterTheGrace(t *testing.T) {
	for _, reason := range []holdfast.LostReason{holdfast.LostTaken, holdfast.LostGone, holdfast.LostMaxHold} {
		synctest.Test(t, func(t *testing.T) {
			lease := newLease()
			time.AfterFunc(10*time.Second, func() { lease.lose(&holdfast.LostError{Reason: reason}) })
			notes, outcome := supervised(lease)
			want := []string{"terminated at 10s", "killed at 15s"}
			if !slices.Equal(notes, want) || !outcome.Lost {
				t.Errorf("%v: got %q, lost %v; want %q", reason, notes, outcome.Lost, want)
			}
		})
	}
}

func TestALossNearTheDeadlineStillMeansAKillBeforeIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lease := newLease()
		// One nanosecond before it would be terminated anyway.
		time.AfterFunc(ttl-grace-slack-1, func() { lease.lose(errors.New("gone")) })
		notes, _ := supervised(lease)
		want := []string{"terminated at 23.999999999s", "killed at 28.999999999s"}
		if !slices.Equal(notes, want) {
			t.Errorf("got %q, want %q", notes, want)
		}
	})
}

func TestALeaseWhoseTimeIsOverIsAKillAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lease := newLease()
		// The machine was suspended: the lease's clock is ahead of our timers.
		time.AfterFunc(10*time.Second, func() { lease.lose(&holdfast.LostError{Reason: holdfast.LostExpired}) })
		notes, outcome := supervised(lease)
		want := []string{"killed at 10s"}
		if !slices.Equal(notes, want) || !outcome.Lost {
			t.Errorf("got %q, lost %v; want %q", notes, outcome.Lost, want)
		}
	})
}

func TestARenewalAfterTheTermDoesNotSaveTheCommand(t *testing.T) {
	now := time.Unix(0, 0)
	p := plan{grace: grace, slack: slack}
	steps := []struct {
		at, deadline time.Duration
		want         action
		next         time.Duration
	}{
		{0, ttl, nothing, 24 * time.Second},
		{24 * time.Second, ttl, terminate, 29 * time.Second},
		{25 * time.Second, 2 * ttl, nothing, 29 * time.Second},
		{29 * time.Second, 2 * ttl, kill, 0},
		{30 * time.Second, 2 * ttl, nothing, 0},
	}
	for _, s := range steps {
		got, next := p.step(now.Add(s.at), now.Add(s.deadline), held)
		if got != s.want || (s.next != 0 && !next.Equal(now.Add(s.next))) || (s.next == 0) != next.IsZero() {
			t.Errorf("at %v: got %v until %v, want %v until %v", s.at, got, next, s.want, s.next)
		}
	}
}

func TestAFrozenSupervisorTerminatesAndKillsAtOnceWhenItWakes(t *testing.T) {
	now := time.Unix(0, 0)
	p := plan{grace: grace, slack: slack}
	p.step(now, now.Add(ttl), held)
	late := now.Add(time.Hour)
	if got, next := p.step(late, now.Add(ttl), held); got != terminate || next.After(late) {
		t.Errorf("got %v until %v, want terminate and no grace", got, next)
	}
	if got, _ := p.step(late, now.Add(ttl), held); got != kill {
		t.Errorf("got %v, want kill", got)
	}
}
