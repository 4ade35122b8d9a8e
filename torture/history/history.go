// Package history is the record of a torture run: what each client called and
// was told, what was done to it and to the servers, and what the guarded
// resource saw. All times are of one clock, the machine's CLOCK_MONOTONIC, so
// that events of different processes can be compared.
package history

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Kind says what an event is.
type Kind string

// The kinds of events.
const (
	// Call is the begin of an operation; its Return has the same Process and Op.
	// A call of a process that was killed has none: it may have happened.
	Call   Kind = "call"
	Return Kind = "return"
	// Extended says that a lease is trusted until Deadline; it belongs to the
	// acquire of the same Process and Op.
	Extended Kind = "extended"
	// Lost says that the client was told of the loss of a lease; it belongs to
	// the acquire of the same Process and Op.
	Lost Kind = "lost"
	// Fault and Heal are the begin and the end of a fault; they share Op. A fault
	// without duration, like a kill, has only the first.
	Fault Kind = "fault"
	Heal  Kind = "heal"
	// Promoted says that until then a fault, of the same Process and Op, has not
	// put another server in a server's place.
	Promoted Kind = "promoted"
	// Accepted and Stale are what a guarded or unguarded resource decided of a
	// write or touch that reached it.
	Accepted Kind = "accepted"
	Stale    Kind = "stale"
	// Began says that a slot's attempt has begun to work: a run's Fence, Attempt,
	// Slot and Deadline; it belongs to the run of the same Process and Op.
	Began Kind = "began"
	// Ended says that the attempt's work is over, before the slot is marked done
	// and the job's lock released; it belongs to the run as Began does.
	Ended Kind = "ended"
	// Left is what was found at the store after the run and should not be there.
	Left Kind = "left"
)

// Do is the operation of a Call and its Return.
type Do string

// What a client does.
const (
	Acquire Do = "acquire" // Fence and Deadline are in the Return
	Extend  Do = "extend"
	Release Do = "release"
	Touch   Do = "touch" // shows Fence to the resource Name, and reads it
	Read    Do = "read"
	Write   Do = "write"
	RunSlot Do = "run" // one attempt at Slot of the job Name
)

// Outcome is how a Return ended.
type Outcome string

// How a call ends, told apart as the library tells it apart.
const (
	OK          Outcome = "ok"
	Held        Outcome = "held"
	LostLease   Outcome = "lost"
	Unreachable Outcome = "unreachable"
	Refused     Outcome = "refused"
	Cancelled   Outcome = "cancelled"
	StaleFence  Outcome = "stale"
	Skipped     Outcome = "skipped" // a slot that another has done or is running
	Failed      Outcome = "failed"  // anything else
)

// Unknown says whether an operation that ended so may have happened all the
// same at the store.
func (o Outcome) Unknown() bool {
	return o == Unreachable || o == Cancelled || o == Failed
}

// Event is one line of a history. Fields that do not apply are zero.
type Event struct {
	// At is CLOCK_MONOTONIC in nanoseconds.
	At   int64 `json:"at"`
	Kind Kind  `json:"kind"`
	// Process is the incarnation of a client, as "w3.2": worker 3, started for
	// the second time; "nemesis", or "resource".
	Process string `json:"process,omitempty"`
	// Client is the goroutine of the process: its calls follow one another.
	Client int `json:"client,omitempty"`
	// Op counts the operations of a process from 1. A touch, read, write, extend
	// or release made under a lease names the lease's acquire in Lease.
	Op    int64 `json:"op,omitempty"`
	Lease int64 `json:"lease,omitempty"`
	Do    Do    `json:"do,omitempty"`
	// Fault is the kind of a Fault or Heal, as "SIGKILL" or "reply lost".
	Fault   string  `json:"fault,omitempty"`
	Outcome Outcome `json:"outcome,omitempty"`
	// Name is the lock, the job, the resource, the key that was left, or the
	// target of a fault.
	Name  string `json:"name,omitempty"`
	Slot  string `json:"slot,omitempty"`
	Fence int64  `json:"fence,omitempty"`
	// Unfenced says that an acquire asks for a lease without a fence, as all acquires
	// of the name do.
	Unfenced bool `json:"unfenced,omitempty"`
	// Deadline is until when the lease is trusted, on the clock of At.
	Deadline int64 `json:"deadline,omitempty"`
	// Delay is for how long an acquire asks the store to keep the name after
	// Deadline: the lock delay, in nanoseconds.
	Delay int64 `json:"delay,omitempty"`
	// Attempt counts the attempts at a slot from 1.
	Attempt int `json:"attempt,omitempty"`
	// Version is the version of a resource that was read, or that an accepted
	// write made; Based is the version that a write was made from. Guarded says
	// that the resource checks fences.
	Version int64 `json:"version,omitempty"`
	Based   int64 `json:"based,omitempty"`
	Guarded bool  `json:"guarded,omitempty"`
	// Value is what was read or written.
	Value string `json:"value,omitempty"`
	// Note is for people.
	Note string `json:"note,omitempty"`
}

// Now reads the clock of all histories.
func Now() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic(err) // the system has no such clock
	}
	return ts.Nano()
}

// Moment returns the time on the clock of all histories that t, which must have
// Go's monotonic reading, will have.
func Moment(t time.Time) int64 {
	for {
		before := Now()
		now := time.Now()
		// A process that was stopped between two looks would be wrong by as much.
		if Now()-before < int64(time.Millisecond) {
			return before + int64(t.Sub(now))
		}
	}
}

// Writer appends events to a stream, each in one Write, so that a process that
// is killed leaves whole lines. It may be used by many goroutines.
type Writer struct {
	mu sync.Mutex
	to io.Writer
}

// NewWriter returns a Writer to a pipe or file.
func NewWriter(to io.Writer) *Writer { return &Writer{to: to} }

// Add sets the event's time, unless it has one, and writes it.
func (w *Writer) Add(e Event) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if e.At == 0 {
		e.At = Now()
	}
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	_, err = w.to.Write(append(line, '\n'))
	return err
}

// Decode calls add for each event of a stream until it ends. The last line may be
// cut short, by a kill.
func Decode(from io.Reader, add func(Event)) error {
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		var e Event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			if !lines.Scan() {
				return lines.Err()
			}
			return fmt.Errorf("line %d: %w", n, err)
		}
		add(e)
	}
	return lines.Err()
}
