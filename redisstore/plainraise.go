package redisstore

import (
	"context"
	"time"

	"github.com/holdfastlock/holdfast/driver"
)

// raisePlain is the script raise.
func (s *Store) raisePlain(ctx context.Context, k keys, req driver.RaiseRequest) (driver.Answer, error) {
	return apart(ctx, s, k.lock, func(ctx context.Context, t transaction) (answer driver.Answer, err error) {
		_, err = t.run(ctx, []string{k.lock, k.companion()}, []Command{
			command(1, "GET", k.lock), command(1, "PTTL", k.lock),
			command(1, "HMGET", k.companion(), "token", "fence", "purpose"), command(1, "PTTL", k.companion()),
			command(0, "TIME"),
		}, func(read []Reply) ([]Command, error) {
			if err := firstError(read); err != nil {
				return nil, err
			}
			switch {
			case read[0].Null:
				answer = driver.Gone
				return nil, nil
			case read[0].Text != req.Token:
				answer = driver.Taken
				return nil, nil
			}
			answer = driver.Mine
			return raised(k, req, read)
		})
		return answer, err
	})
}

// raised returns what is to be written for a token that holds the name.
func raised(k keys, req driver.RaiseRequest, read []Reply) ([]Command, error) {
	known, err := companionOf(read[2])
	if err != nil || known.token == req.Token && known.fence >= req.Last {
		return nil, err
	}
	now, err := serverTime(read[4])
	if err != nil {
		return nil, err
	}
	fence := max(known.fence, req.Last)
	writes := []Command{command(1, "HSET", k.companion(), "token", req.Token, "fence", decimal(fence))}
	// The companion must outlive the moment of the fence, as number has it.
	lease := time.Duration(read[1].Int) * time.Millisecond
	needed := time.Duration(fence)*time.Microsecond - now + companionTTL(lease)
	if time.Duration(read[3].Int)*time.Millisecond < needed {
		writes = append(writes, command(1, "PEXPIRE", k.companion(), milliseconds(needed)))
	}
	return writes, nil
}
