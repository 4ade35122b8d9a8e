package worker

import (
	"os"
	"sync/atomic"

	"github.com/holdfastlock/holdfast/torture/history"
)

// record writes the history of one process.
type record struct {
	process string
	to      *history.Writer
	ops     atomic.Int64
}

// call notes the begin of an operation, before it is carried out, and returns
// its number.
func (r *record) call(e history.Event) int64 {
	e.Kind, e.Op = history.Call, r.ops.Add(1)
	r.add(e)
	return e.Op
}

// add notes an event. Without anybody to read it there is nothing to live for.
func (r *record) add(e history.Event) {
	e.Process = r.process
	if r.to.Add(e) != nil {
		os.Exit(exitUnread)
	}
}
