package check_test

import (
	"time"

	"github.com/holdfastlock/holdfast/torture/check"
	"github.com/holdfastlock/holdfast/torture/history"
)

// A story is a history written by hand. Its times are in milliseconds.
type story []history.Event

const ms = int64(time.Millisecond)

// told joins the parts of a story.
func told(parts ...story) story {
	var all story
	for _, part := range parts {
		all = append(all, part...)
	}
	return all
}

// event adds what all events of an operation have.
func event(at int64, kind history.Kind, process string, op int64, e history.Event) history.Event {
	e.At, e.Kind, e.Process, e.Op = at*ms, kind, process, op
	return e
}

// ask is an acquire of lock "a" that was called and has no answer.
func ask(process string, op, called int64) story {
	return story{event(called, history.Call, process, op, history.Event{Do: history.Acquire, Name: "a"})}
}

// denied is an acquire that was not granted.
func denied(process string, op, called, returned int64, outcome history.Outcome) story {
	return append(ask(process, op, called),
		event(returned, history.Return, process, op, history.Event{Do: history.Acquire, Name: "a", Outcome: outcome}))
}

// granted is an acquire whose lease is trusted until deadline.
func granted(process string, op, called, returned, fence, deadline int64) story {
	return append(ask(process, op, called), event(returned, history.Return, process, op, history.Event{
		Do: history.Acquire, Name: "a", Outcome: history.OK, Fence: fence, Deadline: deadline * ms,
	}))
}

// delayed gives the acquire of a story a lock delay.
func delayed(s story, delay int64) story {
	for i := range s {
		s[i].Delay = delay * ms
	}
	return s
}

// unfenced has the acquires of a story ask for no fence.
func unfenced(s story) story {
	for i := range s {
		s[i].Unfenced, s[i].Fence = s[i].Kind == history.Call && s[i].Do == history.Acquire, 0
	}
	return s
}

// released is the release of a lease that was acquired by operation lease.
func released(process string, op, lease, called, returned int64, outcome history.Outcome) story {
	return story{
		event(called, history.Call, process, op, history.Event{Do: history.Release, Name: "a", Lease: lease}),
		event(returned, history.Return, process, op, history.Event{Do: history.Release, Name: "a", Lease: lease, Outcome: outcome}),
	}
}

// confirmed is an explicit extension of the lease.
func confirmed(process string, op, lease, called, returned, deadline int64) story {
	return story{
		event(called, history.Call, process, op, history.Event{Do: history.Extend, Name: "a", Lease: lease}),
		event(returned, history.Return, process, op, history.Event{Do: history.Extend, Name: "a", Lease: lease, Outcome: history.OK, Deadline: deadline * ms}),
	}
}

func extended(process string, lease, at, deadline int64) story {
	return story{event(at, history.Extended, process, lease, history.Event{Name: "a", Deadline: deadline * ms})}
}

func lost(process string, lease, at int64) story {
	return story{event(at, history.Lost, process, lease, history.Event{Name: "a"})}
}

// fault is something done to a target; without a duration if healed is 0.
func fault(op int64, kind, target string, at, healed int64) story {
	e := history.Event{Fault: kind, Name: target}
	s := story{event(at, history.Fault, "nemesis", op, e)}
	if healed > 0 {
		s = append(s, event(healed, history.Heal, "nemesis", op, e))
	}
	return s
}

// promoted says that until at another server had not taken over by the fault.
func promoted(op int64, kind string, at int64) story {
	return story{event(at, history.Promoted, "nemesis", op, history.Event{Fault: kind})}
}

// wrote is a write to resource "r" that was answered 2 ms later.
func wrote(process string, op, at, fence, based, version int64, guarded bool) story {
	e := history.Event{Do: history.Write, Name: "r", Fence: fence, Based: based, Value: process, Guarded: guarded}
	accepted := event(at+1, history.Accepted, process, op, e)
	accepted.Version = version
	answer := event(at+2, history.Return, process, op, history.Event{Do: history.Write, Name: "r", Outcome: history.OK})
	return story{event(at, history.Call, process, op, e), accepted, answer}
}

// ran is an attempt at slot "s" of job "j" that ends with outcome.
func ran(process string, op, called, began, returned int64, attempt int, fence int64, outcome history.Outcome) story {
	return story{
		event(called, history.Call, process, op, history.Event{Do: history.RunSlot, Name: "j", Slot: "s"}),
		event(began, history.Began, process, op, history.Event{Name: "j", Slot: "s", Fence: fence, Attempt: attempt, Deadline: (began + 900) * ms}),
		event(returned-1, history.Ended, process, op, history.Event{Name: "j"}),
		event(returned, history.Return, process, op, history.Event{Do: history.RunSlot, Name: "j", Outcome: outcome}),
	}
}

// storyRules are for leases of a second.
func storyRules() check.Rules {
	return check.Rules{
		TTL: time.Second, Linger: 100 * time.Millisecond, Recovery: 3 * time.Second,
		Losses: []string{"FLUSHALL", "failover"}, ClockBack: []string{"clock back"},
	}
}
