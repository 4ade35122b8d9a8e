package check

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/holdfastlock/holdfast/torture/history"
)

// forever is later than every event.
const forever = int64(math.MaxInt64)

// record is a history in the order of time, with what belongs together put
// together.
type record struct {
	rules        Rules
	end          int64 // of the last event
	operations   []*operation
	leases       []*lease // in the order of their grants
	faults       []*fault
	decisions    []*history.Event // of resources
	left         []*history.Event
	malformed    []*history.Event
	died         map[string]int64      // when a process was killed
	faultsOf     map[string][]*fault   // by the worker concerned, "" for all
	disturbances map[string][]interval // when these had effect, with what lingered

	byKey   map[key]*operation
	held    map[key]*lease
	byFence map[fenceKey]*lease
	started map[int64]*fault // by the nemesis' operation
}

// key names an operation.
type key struct {
	process string
	op      int64
}

// fenceKey names a lease that has a fence.
type fenceKey struct {
	process, name string
	fence         int64
}

// operation is a call with its return, if it has one.
type operation struct {
	call   *history.Event
	answer *history.Event
}

// unknown says that the operation may have happened or not.
func (o *operation) unknown() bool { return o.answer == nil || o.answer.Outcome.Unknown() }

func (o *operation) ok() bool { return o.answer != nil && o.answer.Outcome == history.OK }

// ended is when the operation returned; otherwise never.
func (o *operation) ended(never int64) int64 {
	if o.answer == nil {
		return never
	}
	return o.answer.At
}

// lease is one holding of a lock, or of a job by an attempt at a slot.
type lease struct {
	name, process   string
	called, granted int64 // the acquire's call, and its return
	claimed         int64 // the call for which the store was asked: of another lease, if it was passed on
	asked           int64 // not later than the request that the store has granted
	fence           int64
	unfenced        bool  // it was asked for without a fence
	deadline        int64 // the last that the holder knew of
	delay           int64 // for how long the store keeps the name after that
	over            int64 // when the holder was told of the loss, or its work ended
	died            int64 // when the holder was killed
	releases        []*operation
	extends         []*operation
	run             *operation // of the attempt at a slot that it belongs to, or nil
	slot            string
	attempt         int
}

// who names the holder and its fence.
func (l *lease) who() string { return fmt.Sprintf("%s (fence %d)", l.process, l.fence) }

// released is when the holder first began to give the lease up, or forever.
func (l *lease) released() int64 {
	if len(l.releases) == 0 {
		return forever
	}
	return l.releases[0].call.At
}

// trustedUntil is when the holder no longer believed in the lease. A frozen
// holder can't act; its belief ends with the deadline all the same.
func (l *lease) trustedUntil() int64 { return min(l.deadline, l.released(), l.over, l.died) }

// fault is something that was done to clients or servers.
type fault struct {
	kind, target string
	at, heal     int64
	lossy        int64 // when it began to make a server lose leases, if it does
	moment       bool  // it had no duration: heal is when its effect has ended
	loses        bool  // leases are forgotten, or end early
	clockBack    bool
	twoHolders   bool // two holders came of it
}

// covers says whether a part of the fault lies between from and to.
func (f *fault) covers(from, to int64) bool { return f.at <= to && from <= f.heal }

// losesBetween says whether it may have made a server lose leases then.
func (f *fault) losesBetween(from, to int64) bool { return f.loses && f.lossy <= to && from <= f.heal }

func read(events []history.Event, rules Rules) *record {
	r := &record{
		rules: rules,
		byKey: map[key]*operation{}, held: map[key]*lease{}, byFence: map[fenceKey]*lease{}, started: map[int64]*fault{},
		died: map[string]int64{}, faultsOf: map[string][]*fault{}, disturbances: map[string][]interval{},
	}
	events = slices.Clone(events)
	slices.SortStableFunc(events, func(a, b history.Event) int { return cmp.Compare(a.At, b.At) })
	for i := range events {
		r.end = max(r.end, events[i].At)
		r.begin(&events[i])
	}
	for i := range events {
		r.follow(&events[i])
	}
	r.classify()
	slices.SortStableFunc(r.leases, func(a, b *lease) int { return cmp.Compare(a.granted, b.granted) })
	return r
}

// begin takes an event that something begins with: an operation, a lease, a
// fault.
func (r *record) begin(e *history.Event) {
	id := key{e.Process, e.Op}
	op := r.byKey[id]
	switch e.Kind {
	case history.Call:
		if op != nil {
			r.malformed = append(r.malformed, e)
			return
		}
		op = &operation{call: e}
		r.operations = append(r.operations, op)
		r.byKey[id] = op
	case history.Return:
		if op == nil || op.answer != nil || op.call.Do != e.Do {
			r.malformed = append(r.malformed, e)
			return
		}
		op.answer = e
		if e.Do == history.Acquire && e.Outcome == history.OK {
			r.grant(id, op, e)
		}
	case history.Began:
		if op == nil || r.held[id] != nil {
			r.malformed = append(r.malformed, e)
			return
		}
		r.grant(id, op, e)
	case history.Fault:
		f := &fault{kind: e.Fault, target: e.Name, at: e.At, heal: e.At, lossy: e.At}
		r.faults = append(r.faults, f)
		r.started[e.Op] = f
	case history.Accepted, history.Stale:
		r.decisions = append(r.decisions, e)
	case history.Left:
		r.left = append(r.left, e)
	case history.Extended, history.Lost, history.Ended, history.Heal, history.Promoted:
		// see follow
	}
}

// grant notes a lease that begins with e: the return of an acquire, or an
// attempt that has begun.
func (r *record) grant(id key, op *operation, e *history.Event) {
	l := &lease{
		name: op.call.Name, process: e.Process, called: op.call.At, claimed: op.call.At, granted: e.At,
		fence: e.Fence, unfenced: op.call.Unfenced, deadline: e.Deadline, delay: op.call.Delay, over: forever, died: forever,
		asked: max(op.call.At, e.Deadline-int64(r.rules.TTL)),
	}
	if r.rules.Fenceless {
		l.asked = op.call.At // the deadline may not be counted from the request
	}
	if e.Kind == history.Began {
		l.run, l.slot, l.attempt = op, e.Slot, e.Attempt
	}
	if before := r.passedOn(l); before != nil {
		l.claimed, l.asked = before.claimed, before.asked
	}
	r.byFence[fenceKey{l.process, l.name, l.fence}] = l
	r.held[id] = l
	r.leases = append(r.leases, l)
}

// passedOn returns the lease whose process has passed on what the store granted to
// it, without asking the store again, to the lease; or nil. It has the next fence and
// the same deadline, but for what lies between two readings of a clock.
func (r *record) passedOn(l *lease) *lease {
	before := r.byFence[fenceKey{l.process, l.name, l.fence - 1}]
	if before == nil || l.unfenced || time.Duration(l.deadline-before.deadline).Abs() > 10*time.Millisecond {
		return nil
	}
	return before
}

// follow takes an event that says more of what has begun.
func (r *record) follow(e *history.Event) {
	l := r.held[key{e.Process, e.Op}]
	under := r.held[key{e.Process, e.Lease}]
	op := r.byKey[key{e.Process, e.Op}]
	switch {
	case e.Kind == history.Heal, e.Kind == history.Promoted:
		r.followFault(e)
	case e.Kind == history.Extended && l != nil:
		l.deadline = max(l.deadline, e.Deadline)
	case (e.Kind == history.Lost || e.Kind == history.Ended) && l != nil:
		l.over = min(l.over, e.At)
	case under == nil || op == nil:
	case e.Kind == history.Return && e.Do == history.Extend && op.ok():
		under.deadline = max(under.deadline, e.Deadline)
		under.extends = append(under.extends, op)
	case e.Kind == history.Call && e.Do == history.Release:
		under.releases = append(under.releases, op)
	}
}

// followFault takes an event that says more of a fault.
func (r *record) followFault(e *history.Event) {
	f := r.started[e.Op]
	switch {
	case f == nil:
		r.malformed = append(r.malformed, e)
	case e.Kind == history.Heal:
		f.heal = e.At
	default:
		f.lossy = e.At
	}
}

// worker returns the name that the incarnations of a process have in common:
// "w3" of "w3.2".
func worker(process string) string {
	name, _, _ := strings.Cut(process, ".")
	return name
}

// classify says of each fault whom it concerns and what it excuses, and when
// the killed processes died.
func (r *record) classify() {
	workers := map[string]bool{}
	for id := range r.byKey {
		workers[worker(id.process)] = true
	}
	for _, f := range r.faults {
		f.loses = slices.Contains(r.rules.Losses, f.kind)
		f.clockBack = slices.Contains(r.rules.ClockBack, f.kind)
		f.moment = f.heal == f.at
		if f.loses && f.moment {
			f.heal += int64(r.rules.Linger) // its effect comes after its beginning
		}
		concerned := "" // everybody
		if w := worker(f.target); workers[w] {
			concerned = w
		}
		r.faultsOf[concerned] = append(r.faultsOf[concerned], f)
	}
	for of, faults := range r.faultsOf {
		for _, f := range faults {
			r.disturbances[of] = append(r.disturbances[of], interval{f.at, f.heal + int64(r.rules.Linger)})
		}
		r.disturbances[of] = merged(r.disturbances[of])
	}
	r.bury()
}

// bury notes who was killed, and when.
func (r *record) bury() {
	for _, f := range r.faults {
		if _, dead := r.died[f.target]; f.kind == Kill && !dead {
			r.died[f.target] = f.at
		}
	}
	for _, l := range r.leases {
		if at, dead := r.died[l.process]; dead {
			l.died = at
		}
	}
}

// lossBetween returns the last fault between from and to that made a server
// lose leases, or nil.
func (r *record) lossBetween(from, to int64) *fault {
	for _, f := range slices.Backward(r.faults) {
		if f.losesBetween(from, to) {
			return f
		}
	}
	return nil
}

// lossAmong returns a fault that made a server lose the older of two leases
// before both were granted, or nil. The older at the server is the one with the
// smaller fence, unless a clock went back: answers may overtake one another. Without
// a fence it is not known.
func (r *record) lossAmong(first, second *lease) *fault {
	from := first.asked
	if r.rules.Fenceless || second.unfenced || r.clockWasBack(second.granted) {
		from = min(first.asked, second.asked)
	} else if second.fence < first.fence {
		from = second.asked
	}
	return r.lossBetween(from, second.granted)
}

// mayBeBack says whether between from and to a server may have lost a lease in
// such a way that an older one is there again. What happens in a moment deletes.
func (r *record) mayBeBack(from, to int64) bool {
	return slices.ContainsFunc(r.faults, func(f *fault) bool { return !f.moment && f.losesBetween(from, to) })
}

// frozen returns for how long between from and to one of the processes was frozen.
func (r *record) frozen(from, to int64, processes ...string) (sum time.Duration) {
	var still []interval
	for _, process := range processes {
		for _, f := range r.faultsOf[worker(process)] {
			if f.kind == Stop && f.covers(from, to) {
				still = append(still, interval{max(from, f.at), min(to, f.heal)})
			}
		}
	}
	for _, i := range merged(still) {
		sum += time.Duration(i.to - i.from)
	}
	return sum
}

// clockWasBack says whether a server's clock was set back before to.
func (r *record) clockWasBack(to int64) bool {
	return slices.ContainsFunc(r.faults, func(f *fault) bool { return f.clockBack && f.at <= to })
}

// disturbed says whether between from and to a fault concerned the process.
func (r *record) disturbed(process string, from, to int64) bool {
	return overlaps(r.disturbances[""], from, to) || overlaps(r.disturbances[worker(process)], from, to)
}

// lossIntervals returns when servers lost data.
func (r *record) lossIntervals() []interval {
	var list []interval
	for _, f := range r.faults {
		if f.loses {
			list = append(list, interval{f.lossy, f.heal})
		}
	}
	return list
}

func (r *record) leasesByName() map[string][]*lease {
	byName := map[string][]*lease{}
	for _, l := range r.leases {
		byName[l.name] = append(byName[l.name], l)
	}
	return byName
}

func (r *record) acquiresByName() map[string][]*operation {
	byName := map[string][]*operation{}
	for _, op := range r.operations {
		if op.call.Do == history.Acquire {
			byName[op.call.Name] = append(byName[op.call.Name], op)
		}
	}
	return byName
}
