package check

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/holdfastlock/holdfast/torture/history"
)

// resources looks for lost updates. A write replaces the whole content of a
// resource by what its writer had read, of version Based, and one element more,
// and makes the next version. So the content of the last version is what the
// chain from it by Based leads to. An accepted write that is not in this chain
// was overwritten by somebody who had not read it: it is lost.
//
// A guarded resource must lose none, and never accept a fence smaller than one
// that it has accepted before, even if servers lose data and clocks go back: a
// holder whose fence is too small then is refused. What an unguarded one loses
// is the control: it shows that the faults would have done damage.
func (c *checker) resources() {
	byName := map[string][]*history.Event{}
	written := map[key]bool{}
	for _, e := range c.record.decisions {
		updates := c.updates(e)
		switch {
		case e.Kind == history.Stale:
			updates.Refused++
		case e.Do == history.Write:
			written[key{e.Process, e.Op}] = true
			updates.Writes++
		}
		byName[e.Name] = append(byName[e.Name], e)
	}
	for name, decisions := range byName {
		c.staleWrites(name, decisions)
		c.lostUpdates(name, decisions)
	}
	for _, op := range c.record.operations {
		if op.call.Do != history.Write || !op.ok() || written[key{op.call.Process, op.call.Op}] {
			continue
		}
		if loss := c.forgotten(op); loss != nil {
			c.loss(loss).WritesGone++
		} else {
			c.violation(MissingWrite, op.call.Name, op.call.At, op.answer.At,
				"the resource acknowledged "+op.call.Value+" and never accepted it", op.call.Process)
		}
	}
}

func (c *checker) inStore(name string) bool {
	return c.rules.InStore != "" && strings.HasPrefix(name, c.rules.InStore)
}

// forgotten returns the fault that made the store lose a write that it has
// acknowledged, or nil.
func (c *checker) forgotten(write *operation) *fault {
	i := slices.IndexFunc(c.record.faults, func(f *fault) bool {
		return slices.Contains(c.rules.Forgets, f.kind) && f.covers(write.call.At, write.answer.At)
	})
	if i < 0 || !c.inStore(write.call.Name) {
		return nil
	}
	return c.record.faults[i]
}

func (c *checker) updates(e *history.Event) *Updates {
	switch folder := path.Dir(e.Name); {
	case c.inStore(e.Name):
		if c.report.Stored == nil {
			c.report.Stored = map[string]*Updates{}
		}
		if c.report.Stored[folder] == nil {
			c.report.Stored[folder] = &Updates{}
		}
		return c.report.Stored[folder]
	case e.Guarded:
		return &c.report.Guarded
	default:
		return &c.report.Unguarded
	}
}

func (c *checker) lostUpdates(name string, decisions []*history.Event) {
	writes := slices.DeleteFunc(slices.Clone(decisions), func(e *history.Event) bool {
		return e.Kind != history.Accepted || e.Do != history.Write
	})
	slices.SortStableFunc(writes, func(a, b *history.Event) int { return cmp.Compare(a.Version, b.Version) })
	for i, w := range writes {
		if w.Version != int64(i)+1 || w.Based >= w.Version || w.Based < 0 {
			c.violation(Malformed, name, w.At, w.At, fmt.Sprintf(
				"write %d of the resource made version %d from version %d", i+1, w.Version, w.Based), w.Process)
			return
		}
	}
	kept := int64(len(writes)) // the version that the chain has come to
	var over *history.Event    // the write that was made from it
	for _, w := range slices.Backward(writes) {
		if w.Version == kept {
			kept, over = w.Based, w
			continue
		}
		c.updates(w).Lost++
		if w.Guarded && !c.rules.Fenceless {
			c.violation(LostUpdate, name, readingOf(over, decisions), over.At, fmt.Sprintf(
				"%s of %s (version %d, fence %d) was overwritten by %s (fence %d), who had read version %d",
				w.Value, w.Process, w.Version, w.Fence, over.Process, over.Fence, over.Based), w.Process, over.Process)
		}
	}
}

// readingOf returns when the writer had touched the resource before the write.
func readingOf(write *history.Event, decisions []*history.Event) int64 {
	at := write.At
	for _, e := range decisions {
		if e.Process == write.Process && e.Lease == write.Lease && e.Do == history.Touch && e.Kind == history.Accepted {
			at = min(at, e.At)
		}
	}
	return at
}

func (c *checker) staleWrites(name string, decisions []*history.Event) {
	var newest *history.Event
	for _, e := range decisions {
		if !e.Guarded || e.Kind != history.Accepted {
			continue
		}
		if newest == nil || e.Fence >= newest.Fence {
			newest = e
			continue
		}
		if loss := c.record.lossBetween(newest.At, e.At); loss != nil {
			c.loss(loss).StaleWrites++
		}
		c.violation(StaleWrite, name, newest.At, e.At, fmt.Sprintf(
			"a %s of %s with fence %d was accepted after a %s of %s with fence %d",
			e.Do, e.Process, e.Fence, newest.Do, newest.Process, newest.Fence), e.Process, newest.Process)
	}
}
