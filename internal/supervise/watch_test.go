package supervise

import (
	"context"
	"fmt"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

const (
	ttl   = 30 * time.Second
	grace = 5 * time.Second
	slack = time.Second
)

// fakeLease is a lease that the test keeps or loses.
type fakeLease struct {
	ctx      context.Context
	lose     context.CancelCauseFunc
	deadline time.Time
}

func newLease() *fakeLease {
	l := &fakeLease{deadline: time.Now().Add(ttl)}
	l.ctx, l.lose = context.WithCancelCause(context.Background())
	return l
}

func (l *fakeLease) Context() context.Context      { return l.ctx }
func (l *fakeLease) Deadline() time.Time           { return l.deadline }
func (l *fakeLease) Confirm(context.Context) error { return l.ctx.Err() }

// fakeFamily notes how it was signalled, and ends when it is killed.
type fakeFamily struct {
	began   time.Time
	changes chan change
	notes   []string
	gone    bool
}

func (f *fakeFamily) signalAll(sig syscall.Signal) { f.signal(sig) }

func (f *fakeFamily) signal(sig syscall.Signal) {
	if f.gone {
		return
	}
	if sig != syscall.SIGCONT {
		f.notes = append(f.notes, fmt.Sprintf("%v at %v", sig, time.Since(f.began)))
	}
	if sig == syscall.SIGKILL {
		f.gone = true
		f.changes <- change{ended: true, code: SignalCode(sig)}
		f.changes <- change{gone: true}
	}
}

// watched runs a command that does not end by itself under a lease of one TTL,
// and returns what happened to it.
func watched(rules Rules, orders <-chan order) (notes []string, outcome Outcome) {
	const room = 4
	f := &fakeFamily{began: time.Now(), changes: make(chan change, room)}
	p := plan{Rules: rules}
	if rules.Limit > 0 {
		p.limit = time.Now().Add(rules.Limit)
	}
	w := &watch{family: f, plan: p, now: time.Now, orders: orders, changes: f.changes, deadline: time.Now().Add(ttl), tell: func(report) {}}
	outcome = w.run()
	return f.notes, outcome
}

// rules are those of most tests.
var rules = Rules{Grace: grace, Slack: slack}

// after gives an order after a time.
func after(d time.Duration, o order) <-chan order {
	orders := make(chan order, 1)
	time.AfterFunc(d, func() { orders <- o })
	return orders
}

func renewed() order { return order{Deadline: moment(time.Now().Add(ttl).UnixNano())} }

func TestTheGroupIsGoneBeforeALeaseThatIsNotRenewedEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		notes, outcome := watched(rules, nil)
		want := []string{"terminated at 24s", "killed at 29s"}
		if !slices.Equal(notes, want) || !outcome.Lost || outcome.Code != 137 {
			t.Errorf("got %q and %+v, want %q and code 137, lost", notes, outcome, want)
		}
	})
}

func TestRenewalsPutTheStopOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		orders := make(chan order)
		go func() {
			for range 10 {
				time.Sleep(ttl / 3)
				orders <- renewed()
			}
		}()
		notes, _ := watched(rules, orders)
		want := []string{"terminated at 2m4s", "killed at 2m9s"}
		if !slices.Equal(notes, want) {
			t.Errorf("got %q, want %q: 10 renewals each 10s, then none", notes, want)
		}
	})
}

func TestALossIsATermAtOnceAndAKillAfterTheGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		notes, outcome := watched(rules, after(10*time.Second, order{Lease: lost}))
		want := []string{"terminated at 10s", "killed at 15s"}
		if !slices.Equal(notes, want) || !outcome.Lost {
			t.Errorf("got %q, lost %v; want %q", notes, outcome.Lost, want)
		}
	})
}

func TestTheDeathOfHoldfastIsALoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		orders := make(chan order)
		time.AfterFunc(10*time.Second, func() { close(orders) })
		notes, outcome := watched(rules, orders)
		want := []string{"terminated at 10s", "killed at 15s"}
		if !slices.Equal(notes, want) || !outcome.Lost {
			t.Errorf("got %q, lost %v; want %q", notes, outcome.Lost, want)
		}
	})
}

func TestALossNearTheDeadlineStillMeansAKillBeforeIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// One nanosecond before it would be terminated anyway.
		notes, _ := watched(rules, after(ttl-grace-slack-1, order{Lease: lost}))
		want := []string{"terminated at 23.999999999s", "killed at 28.999999999s"}
		if !slices.Equal(notes, want) {
			t.Errorf("got %q, want %q", notes, want)
		}
	})
}

func TestALeaseWhoseTimeIsOverIsAKillAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// The machine was suspended: the lease's clock is ahead of our timers.
		notes, outcome := watched(rules, after(10*time.Second, order{Lease: over}))
		want := []string{"killed at 10s"}
		if !slices.Equal(notes, want) || !outcome.Lost {
			t.Errorf("got %q, lost %v; want %q", notes, outcome.Lost, want)
		}
	})
}

func TestTheLimitIsATermAndAKillAfterTheGrace(t *testing.T) {
	for name, c := range map[string]struct {
		grace time.Duration
		want  []string
		lost  bool
	}{
		"while the lease is held": {grace, []string{"terminated at 10s", "killed at 15s"}, false},
		"and before it ends":      {ttl, []string{"terminated at 0s", "killed at 29s"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				notes, outcome := watched(Rules{Grace: c.grace, Slack: slack, Limit: 10 * time.Second}, nil)
				if !slices.Equal(notes, c.want) || !outcome.Late && !c.lost || outcome.Lost != c.lost {
					t.Errorf("got %q and %+v, want %q", notes, outcome, c.want)
				}
			})
		})
	}
}

func TestOnLostSaysWhatALossDoes(t *testing.T) {
	for name, c := range map[string]struct {
		onLost OnLost
		want   []string
	}{
		"term": {LostTerm, []string{"terminated at 24s", "killed at 50s"}},
		"warn": {LostWarn, []string{"killed at 50s"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				orders := make(chan order)
				go func() {
					time.Sleep(50 * time.Second)
					orders <- order{Signal: syscall.SIGTERM}
					orders <- order{Signal: syscall.SIGTERM}
				}()
				notes, outcome := watched(Rules{Grace: grace, Slack: slack, OnLost: c.onLost}, orders)
				notes = slices.DeleteFunc(notes, func(note string) bool { return note == "terminated at 50s" })
				if !slices.Equal(notes, c.want) || !outcome.Lost {
					t.Errorf("got %q and %+v, want %q", notes, outcome, c.want)
				}
			})
		})
	}
}

func TestARenewalAfterTheTermDoesNotSaveTheCommand(t *testing.T) {
	now := time.Unix(0, 0)
	p := plan{Rules: rules}
	steps := []struct {
		at, deadline time.Duration
		want         action
		next         time.Duration
	}{
		{0, ttl, nothing, 24 * time.Second},
		{24 * time.Second, ttl, terminate, 29 * time.Second},
		{25 * time.Second, 2 * ttl, nothing, 29 * time.Second},
		{29 * time.Second, 2 * ttl, kill, 29*time.Second + killPause},
		{30 * time.Second, 2 * ttl, kill, 30*time.Second + killPause},
	}
	for _, s := range steps {
		got, next := p.step(now.Add(s.at), now.Add(s.deadline), held)
		if got != s.want || !next.Equal(now.Add(s.next)) {
			t.Errorf("at %v: got %v until %v, want %v until %v", s.at, got, next, s.want, s.next)
		}
	}
}

func TestAFrozenSupervisorTerminatesAndKillsAtOnceWhenItWakes(t *testing.T) {
	now := time.Unix(0, 0)
	p := plan{Rules: rules}
	p.step(now, now.Add(ttl), held)
	late := now.Add(time.Hour)
	if got, next := p.step(late, now.Add(ttl), held); got != terminate || next.After(late) {
		t.Errorf("got %v until %v, want terminate and no grace", got, next)
	}
	if got, _ := p.step(late, now.Add(ttl), held); got != kill {
		t.Errorf("got %v, want kill", got)
	}
}
