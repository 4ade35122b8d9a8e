package check

import (
	"cmp"
	"slices"
	"sort"

	"github.com/anishathalye/porcupine"

	"github.com/holdfastlock/holdfast/torture/history"
)

// nameHistory is what porcupine is to order of one name.
type nameHistory struct {
	record     *record
	leases     []*lease
	operations []porcupine.Operation
	unfenced   bool // the leases have no fences
	// held counts the answers "held", excused those of them that are left out.
	held, excused int
}

// piece is a part of it that can be checked by itself.
type piece struct {
	initial    state
	operations []porcupine.Operation
}

func newNameHistory(r *record, leases []*lease, acquires []*operation) *nameHistory {
	h := &nameHistory{record: r, leases: leases}
	h.unfenced = slices.ContainsFunc(leases, func(l *lease) bool { return l.unfenced })
	for i, l := range leases {
		h.addLease(i, l)
	}
	h.addHeld(acquires)
	for _, loss := range merged(r.lossIntervals()) {
		h.add(input{step: lossBegins}, loss.from, loss.from, "")
		h.add(input{step: lossEnds}, loss.to, loss.to, "")
	}
	return h
}

func (h *nameHistory) add(in input, call, returned int64, process string) {
	h.operations = append(h.operations, porcupine.Operation{
		Input: in, Call: call, Return: max(call, returned), Metadata: process,
	})
}

func (h *nameHistory) addLease(index int, l *lease) {
	from, to := h.record.ending(l)
	shaky := h.record.shaky(l)
	h.add(input{step: grant, lease: index, fence: l.fence, unfenced: h.unfenced}, l.called, l.granted, l.process)
	h.add(input{step: end, lease: index, shaky: shaky}, from, to, l.process)
	if shaky {
		return // it may have been lost and be back: an extension says nothing
	}
	for _, op := range l.extends {
		h.add(input{step: extend, lease: index}, op.call.At, op.answer.At, l.process)
	}
}

// ending returns from when on the lease may have ended at the store, and when it
// must have. A release that the store has answered says so. Otherwise the store
// keeps the lease for its TTL, and the lock delay, after the last request of the
// holder that it got.
func (r *record) ending(l *lease) (from, to int64) {
	from = min(l.released(), l.deadline+l.delay)
	for _, op := range l.releases {
		if op.answer != nil && (op.ok() || op.answer.Outcome == history.LostLease) {
			return from, op.answer.At
		}
	}
	return from, min(l.deadline, l.died) + int64(r.rules.Linger+r.rules.TTL) + l.delay
}

// shaky says that a server lost its data while it may have had the lease.
func (r *record) shaky(l *lease) bool {
	_, to := r.ending(l)
	return r.lossBetween(l.asked, to) != nil
}

// addHeld adds the answers "held".
func (h *nameHistory) addHeld(acquires []*operation) {
	phantoms := merged(h.record.phantoms(acquires))
	lastBy := map[string]int64{} // when the process's acquires so far have ended
	for _, op := range acquires {
		// Behind another call of its process an acquire waits without asking the
		// store, and says what the other had been told.
		queued := lastBy[op.call.Process] >= op.call.At
		lastBy[op.call.Process] = max(lastBy[op.call.Process], op.ended(forever))
		if op.answer == nil || op.answer.Outcome != history.Held {
			continue
		}
		h.held++
		excused := queued || overlaps(phantoms, op.call.At, op.answer.At)
		h.add(input{step: refuse, excused: excused}, op.call.At, op.answer.At, op.call.Process)
	}
}

// phantoms returns when the name may have been held by a lease that no client
// knows of: from the call of an acquire that may have happened until the store
// must have forgotten it. Under a fault, even an acquire that was answered
// "held" may have sent an earlier request that was heard later.
func (r *record) phantoms(acquires []*operation) []interval {
	var list []interval
	for _, op := range acquires {
		to := op.ended(r.end)
		if died, ok := r.died[op.call.Process]; ok {
			to = min(to, died)
		}
		if op.unknown() || !op.ok() && r.disturbed(op.call.Process, op.call.At, to) {
			list = append(list, interval{op.call.At, to + int64(r.rules.Linger+r.rules.TTL) + op.call.Delay})
		}
	}
	return list
}

// pieces cuts the history where a lease is surely held.
func (h *nameHistory) pieces() []piece {
	cuts := h.cuts()
	pieces := make([]piece, len(cuts)+1)
	pieces[0].initial = state{holder: anybody}
	for i, cut := range cuts {
		pieces[i+1].initial = state{holder: cut.lease, fence: cut.fence}
	}
	for _, op := range h.operations {
		at, ok := place(cuts, op)
		if !ok {
			continue
		}
		if op.Input.(input).excused {
			h.excused++
			continue
		}
		if at > 0 {
			op.Call = max(op.Call, cuts[at-1].at)
		}
		if at < len(cuts) {
			op.Return = min(op.Return, cuts[at].at)
		}
		op.Return = max(op.Call, op.Return)
		pieces[at].operations = append(pieces[at].operations, op)
	}
	return pieces
}

// cut is a moment at which the lease with that index is surely held.
type cut struct {
	at    int64
	lease int
	fence int64
}

func (h *nameHistory) cuts() []cut {
	var cuts []cut
	var unsure []interval
	for i, l := range h.leases {
		until, _ := h.record.ending(l)
		switch at := l.granted + (until-l.granted)/2; {
		case at > l.granted && !h.record.shaky(l):
			cuts = append(cuts, cut{at, i, l.fence})
		case h.unfenced: // granted before a cut, or after: nothing would tell
			unsure = append(unsure, interval{l.asked, l.granted})
		}
	}
	unsure = merged(unsure)
	cuts = slices.DeleteFunc(cuts, func(c cut) bool { return overlaps(unsure, c.at, c.at) })
	slices.SortFunc(cuts, func(a, b cut) int { return cmp.Compare(a.at, b.at) })
	return cuts
}

// place returns the piece that an operation belongs to; false if it is explained
// by what is known at a cut that it reaches over.
func place(cuts []cut, op porcupine.Operation) (int, bool) {
	first := sort.Search(len(cuts), func(i int) bool { return cuts[i].at >= op.Call })
	last := sort.Search(len(cuts), func(i int) bool { return cuts[i].at >= op.Return })
	over := cuts[first:last]
	in := op.Input.(input)
	switch {
	case len(over) == 0:
		return first, true
	case in.step == grant && in.unfenced: // it was held from its return on, or no cut is near
		return last, true
	case in.step == grant:
		return first + sort.Search(len(over), func(i int) bool { return over[i].fence >= in.fence }), true
	case in.step == refuse:
		return 0, false
	default: // what ends or extends an older lease comes before a newer is held
		return first, true
	}
}
