package redisstore

import (
	"fmt"
	"time"

	"github.com/holdfastlock/holdfast/driver"
)

// stateOf reads what the scripts acquire and inspect say of a name: its token,
// PTTL, companion and the server's TIME.
func stateOf(name string, reply []Reply) (driver.State, error) {
	state := driver.State{Name: name}
	if len(reply) != 4 {
		return state, fmt.Errorf("state of a lock: %d parts instead of 4", len(reply))
	}
	left, err := reply[1].number()
	if err != nil {
		return state, err
	}
	last, err := companionOf(reply[2])
	if err != nil {
		return state, err
	}
	state.Fence = last.fence
	if reply[0].Null {
		return state, nil
	}
	token := reply[0].Text
	holder := driver.Holder{Token: token, Left: time.Duration(left) * time.Millisecond}
	if last.token == token { // else the holder writes no companion
		holder.Fence, holder.Purpose = last.fence, last.purpose
		now, err := serverTime(reply[3])
		if err != nil {
			return state, err
		}
		holder.Age = max(0, now-last.since())
	}
	state.Holders = []driver.Holder{holder}
	return state, nil
}

// companion is what the companion key tells of the last grant.
type companion struct {
	token, purpose string
	fence          int64
}

// since returns when the grant was made, as time passed since 1970 by the
// server's clock: its fence is that moment, but for the few that were reserved,
// or ahead of it if the clock has been set back.
func (c companion) since() time.Duration { return time.Duration(c.fence) * time.Microsecond }

// companionOf reads the fields in the scripts' order; those missing are zero.
func companionOf(reply Reply) (companion, error) {
	fields, err := reply.list(3)
	if err != nil {
		return companion{}, fmt.Errorf("companion of a lock: %w", err)
	}
	fence, _ := fields[1].number()
	return companion{token: fields[0].Text, purpose: fields[2].Text, fence: fence}, nil
}

// serverTime reads the answer of TIME: seconds and microseconds.
func serverTime(reply Reply) (time.Duration, error) {
	parts, err := reply.numbers(2)
	if err != nil {
		return 0, fmt.Errorf("the server's TIME: %w", err)
	}
	return time.Duration(parts[0])*time.Second + time.Duration(parts[1])*time.Microsecond, nil
}
