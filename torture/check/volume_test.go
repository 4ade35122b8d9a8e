package check_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/holdfastlock/holdfast/torture/check"
	"github.com/holdfastlock/holdfast/torture/history"
)

func TestTwoHundredThousandLockOperationsArePutInOrder(t *testing.T) {
	if testing.Short() {
		t.Skip("checks a long history")
	}
	events := queues(20, 4600)
	began := time.Now()
	report := check.Check(events, storyRules())
	o := report.Ordering
	t.Logf("%d operations in %d pieces took %v", o.Operations, o.Pieces, time.Since(began).Round(time.Millisecond))
	if len(report.Violations) > 0 || o.Undecided > 0 {
		t.Errorf("%d pieces undecided, violations %v", o.Undecided, report.Violations)
	}
	if o.Operations < 200_000 || o.Held < 20_000 || o.Excused > 0 {
		t.Errorf("the ordering is %+v", o)
	}
}

// queues is a history of that many names. Eight processes want each all the
// time, and are granted it in turn; another looks whether it is free.
func queues(names, tenures int) []history.Event {
	const waiting = 8
	var all []history.Event
	for n := range names {
		name := fmt.Sprintf("lock-%d", n)
		for i := range int64(tenures) {
			process, op := fmt.Sprintf("w%d.%d", n, i%waiting), i/waiting*2+1
			at := i * 10 * ms
			called := max(0, at-(waiting-1)*10*ms+8*ms) // when the process has released
			add := func(at int64, e history.Event) {
				e.At, e.Name = at, name
				if e.Process == "" {
					e.Process = process
				}
				all = append(all, e)
			}
			add(called, history.Event{Kind: history.Call, Op: op, Do: history.Acquire})
			add(at+1*ms, history.Event{Kind: history.Return, Op: op, Do: history.Acquire, Outcome: history.OK, Fence: i + 1, Deadline: at + 980*ms})
			add(at+7*ms, history.Event{Kind: history.Call, Op: op + 1, Do: history.Release, Lease: op})
			add(at+8*ms, history.Event{Kind: history.Return, Op: op + 1, Do: history.Release, Lease: op, Outcome: history.OK})
			if i%4 == 0 {
				looker := "looker" + name
				add(at+5*ms, history.Event{Kind: history.Call, Process: looker, Op: i + 1, Do: history.Acquire})
				add(at+7*ms+1, history.Event{Kind: history.Return, Process: looker, Op: i + 1, Do: history.Acquire, Outcome: history.Held})
			}
		}
	}
	return all
}
