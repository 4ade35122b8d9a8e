package check_test

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/holdfastlock/holdfast/torture/check"
	"github.com/holdfastlock/holdfast/torture/history"
)

// The times of a simulation, and the rules that follow from them.
const (
	simTTL     = 2 * time.Second
	simTrusted = simTTL * 98 / 100
	simTrip    = 5 * time.Millisecond // of a message, at the most
	simTimeout = 50 * time.Millisecond
)

func simRules() check.Rules {
	return check.Rules{
		TTL: simTTL, Linger: simTimeout, Recovery: simTTL + time.Second,
		Losses: []string{"FLUSHALL"}, ClockBack: []string{"server clock back"},
	}
}

// bug is something that a simulation does wrong, once, if it comes to it.
type bug string

const (
	grantsTwice   bug = "the store grants a name that is held"
	repeatsFence  bug = "the store grants a fence that it has granted before"
	freesAnother  bug = "a release frees the lock although another holds it"
	letsStaleIn   bug = "the guarded resource accepts a stale write"
	forgetsWrite  bug = "the guarded resource acknowledges a write and drops it"
	finishesTwice bug = "the store lets a slot be done that is done"
	refusesFree   bug = "the store says held although nobody is"
	sticks        bug = "a release is acknowledged and not carried out"
)

// simulation is a correct store with correct clients, in virtual time. Messages
// take their time, answers are lost, clients are frozen and killed.
type simulation struct {
	random  *rand.Rand
	bug     bug
	patient int  // opportunities for the bug that are let pass
	bugged  bool // the bug has had its effect
	losses  bool // the server loses data now and then
	// unfenced says that locks are asked for without a fence, and nothing is done
	// under them.
	unfenced bool
	lost     int // how many messages of a hundred are lost

	now    int64
	todo   agenda
	events []history.Event

	locks     map[string]*simLock
	slots     map[string]*simSlot
	resources map[string]*simResource
	faults    int64
	open      map[int64]history.Event // heals that are still to come
}

type simLock struct {
	token  *simLease // nil: nobody
	expiry int64
	fence  int64
}

type simSlot struct {
	done     bool
	attempts int
}

type simResource struct{ version, fence int64 }

// simClient is one process with one goroutine.
type simClient struct {
	sim         *simulation
	worker      int
	incarnation int
	ops         int64
	frozen      int64 // until
	dead        bool
	holds       bool
}

type simLease struct {
	client   *simClient
	op       int64
	name     string
	fence    int64
	deadline int64
	over     bool
	once     bool // asked for once
}

// task is something to be done at a moment; by a client, which may be frozen or
// dead then, or by a server.
type task struct {
	at     int64
	order  int
	client *simClient
	do     func()
}

type agenda []task

func (a agenda) Len() int { return len(a) }
func (a agenda) Less(i, j int) bool {
	return a[i].at < a[j].at || a[i].at == a[j].at && a[i].order < a[j].order
}
func (a agenda) Swap(i, j int) { a[i], a[j] = a[j], a[i] }
func (a *agenda) Push(x any)   { *a = append(*a, x.(task)) }
func (a *agenda) Pop() any {
	last := (*a)[len(*a)-1]
	*a = (*a)[:len(*a)-1]
	return last
}

func newSimulation(seed uint64) *simulation {
	return &simulation{
		random: rand.New(rand.NewPCG(seed, 0)), now: int64(time.Hour),
		locks: map[string]*simLock{}, slots: map[string]*simSlot{}, resources: map[string]*simResource{},
		open: map[int64]history.Event{},
	}
}

// run lets clients work until there are that many events.
func (s *simulation) run(clients, events int) []history.Event {
	for worker := range clients {
		s.start(worker, 1)
	}
	s.after(nil, s.upTo(simTTL), s.nemesis)
	for len(s.todo) > 0 && len(s.events) < events {
		t := heap.Pop(&s.todo).(task)
		s.now = max(s.now+1, t.at)
		switch {
		case t.client == nil:
			t.do()
		case t.client.dead:
		case t.client.frozen > s.now:
			t.at = t.client.frozen
			heap.Push(&s.todo, t)
		default:
			t.do()
		}
	}
	for _, heal := range s.open {
		s.add(heal)
	}
	return s.events
}

func (s *simulation) start(worker, incarnation int) {
	c := &simClient{sim: s, worker: worker, incarnation: incarnation}
	s.after(c, s.upTo(simTrip), c.work)
}

func (s *simulation) after(c *simClient, d time.Duration, do func()) {
	heap.Push(&s.todo, task{s.now + int64(d), s.random.Int(), c, do})
}

func (s *simulation) upTo(d time.Duration) time.Duration {
	return time.Duration(s.random.Int64N(int64(d))) + 1
}

func (s *simulation) chance(percent int) bool { return s.random.IntN(100) < percent }

// wrong says whether the bug happens now.
func (s *simulation) wrong(b bug) bool {
	if s.bug != b || s.bugged {
		return false
	}
	s.patient--
	s.bugged = s.patient < 0
	return s.bugged
}

func (s *simulation) add(e history.Event) {
	e.At = s.now
	s.events = append(s.events, e)
}

// request carries out at at the store, and answer with the client unless the
// answer is lost; then failed.
func (s *simulation) request(c *simClient, at, answer, failed func()) {
	switch {
	case s.chance(s.lost):
		s.after(c, simTimeout, failed) // the request is lost
	case s.chance(s.lost):
		s.after(nil, s.upTo(simTimeout), at)
		s.after(c, simTimeout, failed)
	default:
		s.after(nil, s.upTo(simTrip), func() {
			at()
			s.after(c, s.upTo(simTrip), answer)
		})
	}
}

// nemesis does something to somebody, and later something else.
func (s *simulation) nemesis() {
	s.faults++
	fault := history.Event{Kind: history.Fault, Process: "nemesis", Op: s.faults}
	switch {
	case s.losses && s.chance(30):
		fault.Fault, fault.Name = "FLUSHALL", "server"
		s.add(fault)
		s.after(nil, s.upTo(simTrip), func() {
			clear(s.locks)
			clear(s.slots)
		})
		s.healAfter(simTrip, fault)
	default:
		s.disturb(fault)
	}
	s.after(nil, s.upTo(simTTL), s.nemesis)
}

// disturb freezes or kills a client that is at work.
func (s *simulation) disturb(fault history.Event) {
	c := s.victim()
	if c == nil {
		return
	}
	fault.Name = c.process()
	if s.chance(40) {
		fault.Fault = check.Kill
		s.add(fault)
		c.dead = true
		s.start(c.worker, c.incarnation+1)
		return
	}
	fault.Fault = "SIGSTOP"
	s.add(fault)
	c.frozen = s.now + int64(s.upTo(3*simTTL))
	s.healAfter(time.Duration(c.frozen-s.now)-1, fault)
}

// healAfter heals a fault after that time, or at the end.
func (s *simulation) healAfter(d time.Duration, fault history.Event) {
	fault.Kind = history.Heal
	s.open[fault.Op] = fault
	s.after(nil, d, func() {
		delete(s.open, fault.Op)
		s.add(fault)
	})
}

// victim returns a client that is at work, if possible one that holds a lock.
func (s *simulation) victim() (some *simClient) {
	for _, t := range s.todo {
		c := t.client
		if c == nil || c.dead || c.frozen > s.now {
			continue
		}
		if some = c; c.holds {
			return c
		}
	}
	return some
}

func (c *simClient) process() string { return fmt.Sprintf("w%d.%d", c.worker, c.incarnation) }

// call adds the call of a new operation, and returns how to add its return.
func (c *simClient) call(e history.Event) (op int64, done func(history.Outcome, history.Event)) {
	c.ops++
	e.Kind, e.Process, e.Op = history.Call, c.process(), c.ops
	c.sim.add(e)
	return c.ops, func(outcome history.Outcome, answer history.Event) {
		answer.Kind, answer.Process, answer.Op = history.Return, e.Process, e.Op
		answer.Do, answer.Name, answer.Lease, answer.Outcome = e.Do, e.Name, e.Lease, outcome
		c.sim.add(answer)
	}
}
