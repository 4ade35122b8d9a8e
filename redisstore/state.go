package redisstore

import (
	"fmt"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfastlock/holdfast/driver"
)

// stateOf reads what the scripts acquire and inspect say of a name: its token,
// PTTL, companion and the server's TIME.
func stateOf(name string, reply []rueidis.RedisMessage) (driver.State, error) {
	state := driver.State{Name: name}
	if len(reply) != 4 {
		return state, fmt.Errorf("state of a lock: %d parts instead of 4", len(reply))
	}
	left, err := reply[1].AsInt64()
	if err != nil {
		return state, err
	}
	last, err := companionOf(reply[2])
	if err != nil {
		return state, err
	}
	state.Fence = last.fence
	if reply[0].IsNil() {
		return state, nil
	}
	token, err := reply[0].ToString()
	if err != nil {
		return state, err
	}
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
func companionOf(reply rueidis.RedisMessage) (companion, error) {
	fields, err := reply.ToArray()
	if err != nil {
		return companion{}, err
	}
	if len(fields) < 3 {
		return companion{}, fmt.Errorf("companion of a lock: %d fields instead of 3", len(fields))
	}
	var texts [3]string
	for i := range texts {
		texts[i], _ = fields[i].ToString()
	}
	fence, _ := strconv.ParseInt(texts[1], 10, 64)
	return companion{token: texts[0], purpose: texts[2], fence: fence}, nil
}

// serverTime reads the answer of TIME: seconds and microseconds.
func serverTime(reply rueidis.RedisMessage) (time.Duration, error) {
	parts, err := reply.AsIntSlice()
	if err != nil || len(parts) != 2 {
		return 0, fmt.Errorf("the server's TIME: %v, %w", parts, err)
	}
	return time.Duration(parts[0])*time.Second + time.Duration(parts[1])*time.Microsecond, nil
}
