package worker

import (
	"context"
	"strconv"
	"time"

	"github.com/holdfastlock/holdfast/torture/history"
	"github.com/holdfastlock/holdfast/torture/resource"
)

// update adds an element to two sets under one lock, by reading and writing.
// One checks the fence.
func (c *client) update() {
	if len(c.Names.Registers) == 0 {
		return
	}
	name := c.oneOf(c.Names.Registers)
	t := c.acquire(context.Background(), Request{Name: name, TTL: c.TTL, Wait: c.upTo(c.TTL)})
	if t == nil {
		return
	}
	defer t.release(twice)
	guarded, ok := t.ask(t.under(history.Touch, resource.Guarded+name))
	unguarded, _ := t.ask(t.under(history.Read, resource.Unguarded+name))
	if !ok && t.lease.Fence() > 0 {
		return // a newer holder has been there; without fences nobody can say
	}
	d := c.upTo(10 * time.Millisecond)
	if c.oneIn(8) {
		d = c.upTo(c.TTL / 3)
	}
	// A careful client looks at its lease before it writes, or has the store
	// confirm it. The others, and those that are stopped after the look, are why
	// there is a fence.
	t.work(d)
	switch c.rand.IntN(4) {
	case 0:
	case 1:
		if !t.extend() {
			return
		}
	default:
		if t.lost() {
			return
		}
	}
	t.write(resource.Unguarded+name, unguarded)
	t.write(resource.Guarded+name, guarded)
}

// write adds the tenure's element to what the version read of a set contained.
func (t *tenure) write(name string, version int64) {
	e := t.under(history.Write, name)
	e.Based, e.Value = version, t.Process+"/"+strconv.FormatInt(t.op, 10)
	t.ask(e)
}

// ask has a resource do something under the lease and returns the version read
// or made, and whether it was done.
func (t *tenure) ask(e history.Event) (version int64, ok bool) {
	e = t.observe(e, func(e *history.Event) error {
		request := *e
		request.Process = t.Process
		answer, err := t.resources.Do(request)
		e.Outcome, e.Version, e.Note = answer.Outcome, answer.Version, answer.Note
		if err != nil {
			e.Outcome = history.Unreachable
		}
		return err
	})
	return e.Version, e.Outcome == history.OK
}
