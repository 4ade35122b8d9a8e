package supervise

import (
	"encoding/json"
	"io"
	"syscall"
	"time"
)

// order is what holdfast tells the supervisor. Fields without news are zero.
type order struct {
	// Start comes with the first order: start the command.
	Start *startOrder `json:",omitempty"`
	// Deadline is the last one known of the lease.
	Deadline moment `json:",omitempty"`
	// Lease says that the lease is lost or over.
	Lease standing `json:",omitempty"`
	// Signal is to be passed on to the process group.
	Signal syscall.Signal `json:",omitempty"`
	// Resume lets a stopped group go on.
	Resume bool `json:",omitempty"`
}

// startOrder says how to run the command. What the command is, its environment
// and its files are the supervisor's own arguments, environment and files.
type startOrder struct {
	Rules
	// Foreground makes the command the foreground group of the terminal that is
	// its standard input.
	Foreground bool
}

// report is what the supervisor tells holdfast. One field is set.
type report struct {
	// Group is the process group of the command, which was started.
	Group int `json:",omitempty"`
	// Failed is why the command could not be started.
	Failed syscall.Errno `json:",omitempty"`
	// Stopped says that the command was stopped, as by Ctrl-Z.
	Stopped bool `json:",omitempty"`
	// Leaderless says that the command has ended; processes of it may be left.
	Leaderless bool `json:",omitempty"`
	// Ended is the last report but for a command that was not started.
	Ended *Outcome `json:",omitempty"`
}

// moment is a time of the clock that both processes read, in nanoseconds.
type moment int64

func (m moment) time() time.Time { return time.Unix(0, int64(m)) }

// sharedMoment translates a time of Go's clock. The shared clock is read first:
// a process that is frozen between the two readings gets an earlier moment.
func sharedMoment(t time.Time) moment {
	now := sharedNow()
	return now + moment(time.Until(t))
}

// receive passes on what comes out of a pipe, and closes the channel at its
// end. Nobody needs to read further once done is closed.
func receive[T any](from io.Reader, done <-chan struct{}) <-chan T {
	values := make(chan T)
	go func() {
		defer close(values)
		for lines := json.NewDecoder(from); ; {
			var value T
			if lines.Decode(&value) != nil {
				return
			}
			select {
			case values <- value:
			case <-done:
				return
			}
		}
	}()
	return values
}
