package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/holdfastlock/holdfast/torture/check"
	"github.com/holdfastlock/holdfast/torture/history"
)

// nemesis is the process that does the faults.
const nemesis = "nemesis"

// picker makes the rows of a timeline from the events that belong to it.
type picker struct {
	timeline  *Timeline
	violation check.Violation
	clients   map[string]bool         // all processes and their workers
	calls     map[opKey]history.Event // the operations that belong to it
	leases    map[opKey]*trust
}

// trust is until when a lease is trusted.
type trust struct {
	lane            int
	deadline, ended int64 // ended is 0 if nothing but the deadline ends it
}

// suspects adds the lanes of other processes that released or extended the name
// meanwhile: they may have caused it.
func (p *picker) suspects(events []history.Event) {
	for _, e := range events {
		causes := e.Kind == history.Call && (e.Do == history.Release || e.Do == history.Extend)
		within := e.At >= p.violation.From && e.At <= p.violation.To
		if causes && within && e.Name == p.violation.Name && p.lane(e.Process) < 0 {
			p.timeline.lanes = append(p.timeline.lanes, e.Process)
		}
	}
}

// relate finds the operations on the name of the violation by the processes
// concerned, and the leases under which they were made.
func (p *picker) relate(events []history.Event) {
	under := map[opKey]bool{}
	for _, e := range events {
		worker, _, _ := strings.Cut(e.Process, ".")
		p.clients[worker], p.clients[e.Process] = true, true
		if e.Kind == history.Call && e.Name == p.violation.Name && p.lane(e.Process) > 0 {
			under[opKey{e.Process, e.Op}] = true
			under[opKey{e.Process, e.Lease}] = true
		}
	}
	for _, e := range events {
		if e.Kind != history.Call {
			continue
		}
		if under[opKey{e.Process, e.Op}] || e.Do == history.Release && under[opKey{e.Process, e.Lease}] {
			p.calls[opKey{e.Process, e.Op}] = e
		}
	}
}

func (p *picker) lane(process string) int { return slices.Index(p.timeline.lanes, process) }

// laneOf returns the lane of the last incarnation of the worker or process that
// a fault names; of all faults of others, that of the faults.
func (p *picker) laneOf(target string) int {
	for lane, process := range slices.Backward(p.timeline.lanes) {
		if process == target || strings.HasPrefix(process, target+".") {
			return lane
		}
	}
	return faultLane
}

func (p *picker) row(r row) { p.timeline.rows = append(p.timeline.rows, r) }

// pick adds the row of an event, if it belongs to the violation.
func (p *picker) pick(e history.Event) {
	key := opKey{e.Process, e.Op}
	switch call, ours := p.calls[key]; {
	case e.Kind == history.Fault, e.Kind == history.Heal:
		p.fault(e)
	case e.Kind == history.Left && e.Name == p.violation.Name:
		p.row(row{at: e.At, text: "left: " + e.Name, bad: true})
	case !ours:
	case e.Kind == history.Accepted, e.Kind == history.Stale:
		p.decision(e)
	case e.Kind == history.Return:
		p.answer(e, call)
	default:
		p.client(e)
	}
}

// fault adds what was done to one of the processes concerned, or to all.
func (p *picker) fault(e history.Event) {
	lane := p.laneOf(e.Name)
	if lane == faultLane && p.clients[e.Name] {
		return
	}
	r := row{at: e.At, lane: lane, bad: e.Kind == history.Fault, begins: opKey{nemesis, e.Op}, text: e.Fault}
	if lane == faultLane && e.Name != "" {
		r.text += " " + e.Name
	}
	if e.Kind == history.Heal {
		r.text, r.begins, r.ends = r.text+" over", opKey{}, opKey{nemesis, e.Op}
	}
	p.row(r)
	if e.Fault != check.Kill || lane == faultLane {
		return
	}
	for key, l := range p.leases {
		if l.lane == lane && l.ended == 0 {
			l.ended = e.At
			p.row(row{at: e.At, lane: lane, ends: key, text: "its lease has nobody", bad: true})
		}
	}
}

// decision adds what a resource decided, in a lane of its own.
func (p *picker) decision(e history.Event) {
	lane := p.lane(e.Name)
	if lane < 0 {
		p.timeline.lanes = append(p.timeline.lanes, e.Name)
		lane = len(p.timeline.lanes) - 1
	}
	text := fmt.Sprintf("%s of %s, fence %d", e.Do, e.Process, e.Fence)
	switch {
	case e.Kind == history.Stale:
		text = "stale: " + text
	case e.Do == history.Write:
		text = fmt.Sprintf("%d→%d, %s", e.Based, e.Version, text)
	}
	p.row(row{at: e.At, lane: lane, text: text, bad: e.Kind == history.Stale})
}

// answer adds the return of an operation.
func (p *picker) answer(e, call history.Event) {
	key := opKey{e.Process, e.Op}
	r := row{at: e.At, lane: p.lane(e.Process), text: fmt.Sprintf("%s: %s", e.Do, e.Outcome), bad: e.Outcome != history.OK}
	switch {
	case e.Do == history.Acquire && e.Outcome == history.OK:
		p.leases[key] = &trust{lane: r.lane, deadline: e.Deadline}
		r.begins, r.text = key, fmt.Sprintf("granted, fence %d", e.Fence)
	case e.Do == history.RunSlot && e.Outcome == history.OK:
		r.text = "slot " + call.Slot + " done"
	}
	p.row(r)
}

// client adds what a client did or was told.
func (p *picker) client(e history.Event) {
	key := opKey{e.Process, e.Op}
	r := row{at: e.At, lane: p.lane(e.Process), text: string(e.Do)}
	switch {
	case e.Kind == history.Call && e.Do == history.Write:
		r.text = "write " + e.Value
	case e.Kind == history.Call && e.Do == history.Release:
		p.end(&r, opKey{e.Process, e.Lease})
	case e.Kind == history.Began:
		p.leases[key] = &trust{lane: r.lane, deadline: e.Deadline}
		r.begins, r.text = key, fmt.Sprintf("attempt %d of %s, fence %d", e.Attempt, e.Slot, e.Fence)
	case e.Kind == history.Extended:
		if l := p.leases[key]; l != nil {
			l.deadline = max(l.deadline, e.Deadline)
		}
		r.text = "extended"
	case e.Kind == history.Lost, e.Kind == history.Ended:
		p.end(&r, key)
		r.text, r.bad = "work ended", e.Kind == history.Lost
		if r.bad {
			r.text = "told: lost"
		}
	}
	p.row(r)
}

// end ends a lease, if it has not ended.
func (p *picker) end(r *row, lease opKey) {
	if l := p.leases[lease]; l != nil && l.ended == 0 {
		l.ended = r.at
		r.ends = lease
	}
}

// deadlines adds the deadlines that came before a lease was ended.
func (p *picker) deadlines() {
	for key, l := range p.leases {
		if l.ended == 0 || l.deadline < l.ended {
			p.row(row{at: l.deadline, lane: l.lane, ends: key, text: "deadline", bad: true})
		}
	}
}
