package supervise

import (
	"syscall"
	"time"
)

// family is the processes of a command.
type family interface {
	// signal signals the process group.
	signal(sig syscall.Signal)
	// signalAll signals those that have left the group, too.
	signalAll(sig syscall.Signal)
}

// change is news of the processes of a command.
type change struct {
	stopped bool // the command was stopped, as by Ctrl-Z
	ended   bool // the command has ended, with the code
	code    int
	gone    bool // none of its processes is left
}

// watch is the supervisor at work: it waits for a command to end and stops it
// when the plan says so.
type watch struct {
	family  family
	plan    plan
	now     func() time.Time
	orders  <-chan order // closed when holdfast has died
	changes <-chan change
	tell    func(report)

	deadline time.Time
	lease    standing
	// endings counts the INT and TERM passed on.
	endings int
	code    int
	gone    bool
}

// longestPause bounds the time between two looks at the clock: timers stand
// still while a machine sleeps, and the shared clock may not.
const longestPause = time.Second

func (w *watch) run() Outcome {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for !w.done() {
		select {
		case o, alive := <-w.orders:
			w.obey(o, alive)
		case c := <-w.changes:
			w.note(c)
		case <-timer.C:
		}
		pause := longestPause
		if next := w.step(); !next.IsZero() {
			pause = min(pause, next.Sub(w.now()))
		}
		timer.Reset(pause)
	}
	if w.plan.ended.IsZero() {
		w.code = SignalCode(syscall.SIGKILL) // it was killed, and does not end
	}
	return Outcome{Code: w.code, Lost: w.plan.lost, Late: w.plan.late, Left: !w.gone}
}

// done says whether there is nothing left to watch.
func (w *watch) done() bool {
	return w.gone && !w.plan.ended.IsZero() || reached(w.now(), w.plan.leaveAt())
}

func (w *watch) obey(o order, alive bool) {
	if !alive {
		w.orders, w.lease = nil, max(w.lease, lost)
		return
	}
	if o.Deadline != 0 {
		w.deadline = o.Deadline.time()
	}
	w.lease = max(w.lease, o.Lease)
	if o.Signal != 0 {
		w.forward(o.Signal)
	}
	if o.Resume {
		w.family.signal(syscall.SIGCONT)
	}
}

// forward passes a signal on: to the group, or to all that outlive the command.
func (w *watch) forward(sig syscall.Signal) {
	if sig == syscall.SIGINT || sig == syscall.SIGTERM {
		w.endings++
		if w.endings > 1 {
			sig = syscall.SIGKILL
		}
	}
	if w.plan.ended.IsZero() {
		w.family.signal(sig)
	} else {
		w.family.signalAll(sig)
	}
}

func (w *watch) note(c change) {
	switch {
	case c.stopped:
		if w.plan.terminated.IsZero() { // else it is about to end anyway
			w.tell(report{Stopped: true})
		}
	case c.ended:
		w.plan.ended, w.code = w.now(), c.code
		w.tell(report{Leaderless: true})
	case c.gone:
		w.gone = true
	}
}

// step does what the plan says now, and returns when to ask it again.
func (w *watch) step() time.Time {
	act, next := w.plan.step(w.now(), w.deadline, w.lease)
	switch act {
	case terminate:
		w.family.signalAll(syscall.SIGTERM)
		w.family.signalAll(syscall.SIGCONT) // a stopped process would not see it
	case kill:
		w.family.signalAll(syscall.SIGKILL)
	case nothing:
	}
	return next
}
