package check

import (
	"fmt"
	"strings"

	"github.com/anishathalye/porcupine"
)

// ordering asks porcupine, for each name, whether the acquires, extensions and
// releases can have happened one after the other in an order that agrees with
// the times and explains every answer.
//
// It asks piece by piece. While a lease is surely held (granted, and not yet
// being released nor past its deadline) the state of the name is known, so the
// history can be cut there, and is in order if and only if every piece is:
// fences say on which side an operation belongs whose time reaches over the cut.
// Without fences it is cut only where that is known all the same.
func (c *checker) ordering() {
	leases := c.record.leasesByName()
	for name, operations := range c.record.acquiresByName() {
		h := newNameHistory(c.record, leases[name], operations)
		pieces := h.pieces()
		c.report.Ordering.Held += h.held
		c.report.Ordering.Excused += h.excused
		if c.fencesBack[name] {
			c.report.Ordering.Undecided++ // the order of fences is gone
			continue
		}
		for _, p := range pieces {
			c.ask(h, name, p)
		}
	}
}

// ask lets porcupine decide about one piece.
func (c *checker) ask(h *nameHistory, name string, p piece) {
	o := &c.report.Ordering
	o.Pieces++
	o.Operations += len(p.operations)
	switch porcupine.CheckOperationsTimeout(model(p.initial), p.operations, c.rules.PieceLimit) {
	case porcupine.Ok:
	case porcupine.Unknown:
		o.Undecided++
	case porcupine.Illegal:
		from, to := p.extent(c.record.end)
		c.violation(Linearizability, name, from, to, "no order explains "+h.describe(p), h.processes(p)...)
	}
}

// extent returns from when to when it happened: ends are left out if there is
// something else, since they may be long after.
func (p piece) extent(limit int64) (from, to int64) {
	from = limit
	for _, op := range p.operations {
		if op.Input.(input).step != end || len(p.operations) == 1 {
			from, to = min(from, op.Call), max(to, op.Return)
		}
	}
	return from, min(max(from, to), limit)
}

// processes returns who takes part in the piece.
func (h *nameHistory) processes(p piece) []string {
	var names []string
	if p.initial.holder >= 0 {
		names = append(names, h.leases[p.initial.holder].process)
	}
	for _, op := range p.operations {
		names = append(names, op.Metadata.(string))
	}
	return names
}

// described is how many operations of a piece are put in words.
const described = 8

// describe returns the operations of the piece in words.
func (h *nameHistory) describe(p piece) string {
	var parts []string
	for i, op := range p.operations {
		if i == described {
			parts = append(parts, fmt.Sprintf("and %d more", len(p.operations)-described))
			break
		}
		parts = append(parts, h.describeOne(op))
	}
	text := strings.Join(parts, ", ")
	if p.initial.holder >= 0 {
		text += fmt.Sprintf(", beginning with %s as holder", h.leases[p.initial.holder].who())
	}
	return text
}

func (h *nameHistory) describeOne(op porcupine.Operation) string {
	in := op.Input.(input)
	switch in.step {
	case grant:
		return "a grant to " + h.leases[in.lease].who()
	case end:
		return "the end of the lease of " + h.leases[in.lease].who()
	case extend:
		return "an extension by " + h.leases[in.lease].who()
	case refuse:
		return "the answer held to " + op.Metadata.(string)
	default:
		return "a loss of data"
	}
}
