package supervise

import (
	"context"
	"errors"
	"os"
	"syscall"
	"time"

	"github.com/holdfastlock/holdfast"
)

// groupPoll is how often a group that is being stopped, and whose leader has
// ended, is looked at: nothing tells when its last process ends.
const groupPoll = 20 * time.Millisecond

// group is a process group.
type group interface {
	signal(sig syscall.Signal)
	// alive says whether the group has processes left.
	alive() bool
}

// watch waits for a command to end and stops it when the plan says so.
type watch struct {
	group   group
	exited  <-chan int
	signals <-chan os.Signal
	plan    plan
	// endings counts the INT and TERM passed on.
	endings int
}

func (w *watch) run(lease Lease) Outcome {
	ended := lease.Context().Done()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case code := <-w.exited:
			if lease.Context().Err() != nil {
				w.step(lease) // the rest of the group may not know yet
			}
			w.stopRest()
			return Outcome{Code: code, Lost: w.plan.stopping()}
		case sig := <-w.signals:
			w.forward(sig)
			continue
		case <-ended:
			ended = nil // told once; from now on only the timer matters
		case <-timer.C:
		}
		next := w.step(lease)
		if !next.IsZero() {
			timer.Reset(time.Until(next))
		}
	}
}

// step does what the plan says now, and returns when to ask it again.
func (w *watch) step(lease Lease) time.Time {
	// The context first: a deadline read afterwards may be newer, never older.
	stands := standingOf(lease.Context())
	act, next := w.plan.step(time.Now(), lease.Deadline(), stands)
	switch act {
	case terminate:
		w.group.signal(syscall.SIGTERM)
		w.group.signal(syscall.SIGCONT) // a stopped process would not see it
	case kill:
		w.group.signal(syscall.SIGKILL)
	case nothing:
	}
	return next
}

func standingOf(lease context.Context) standing {
	if lease.Err() == nil {
		return held
	}
	var why *holdfast.LostError
	if errors.As(context.Cause(lease), &why) && why.Reason == holdfast.LostExpired {
		return over
	}
	return lost
}

// forward passes a signal on.
func (w *watch) forward(sig os.Signal) {
	number, ok := sig.(syscall.Signal)
	if !ok {
		return
	}
	if number == syscall.SIGINT || number == syscall.SIGTERM {
		w.endings++
		if w.endings > 1 {
			number = syscall.SIGKILL
		}
	}
	w.group.signal(number)
}

// stopRest gives the rest of a group that is being stopped what is left of the
// grace after its leader has ended, then kills it.
func (w *watch) stopRest() {
	if !w.plan.stopping() {
		return
	}
	for w.group.alive() && time.Now().Before(w.plan.killAt) {
		time.Sleep(groupPoll)
	}
	w.group.signal(syscall.SIGKILL)
}
