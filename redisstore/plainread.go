package redisstore

import (
	"context"
	"slices"

	"github.com/holdfastlock/holdfast/driver"
)

// inspectPlain is Inspect without scripts, in one round trip: what is read between
// two equal readings of the lock is of one moment, since a token comes once.
func (s *Store) inspectPlain(ctx context.Context, name string, k keys) (driver.State, error) {
	reads := append(readsOf(k.lock, k.companion()), command(0, "TIME"), command(1, "GET", k.lock))
	for range tries {
		read, err := s.together(ctx, k.lock, reads)
		if err != nil {
			return driver.State{}, err
		}
		again := read[4]
		if read[0].Null == again.Null && read[0].Text == again.Text {
			return stateOf(name, read[:4])
		}
	}
	return driver.State{}, &driver.Error{Kind: driver.ErrUnreachable, Err: errMeanwhile}
}

// together reads what belongs to one key, and the clock of its server.
func (s *Store) together(ctx context.Context, key string, reads []Command) ([]Reply, error) {
	return ask(ctx, s.connection, func(ctx context.Context, conn Conn) (replies []Reply, err error) {
		if !conn.Cluster() {
			replies = conn.DoMany(ctx, reads)
			return replies, firstError(replies)
		}
		// TIME has no key, and could go to any server.
		err = conn.Apart(ctx, key, func(alone Conn) error {
			replies = alone.DoMany(ctx, reads)
			return firstError(replies)
		})
		return replies, err
	})
}

// readsOf are the commands of the script inspect, but for TIME.
func readsOf(lock, companion string) []Command {
	return []Command{
		command(1, "GET", lock), command(1, "PTTL", lock), command(1, "HMGET", companion, "token", "fence", "purpose"),
	}
}

// readMany answers as callMany with the script inspect does. The time is that of
// any server, which is near enough to say since when a lock is held.
func readMany(ctx context.Context, conn Conn, runs []run) []Reply {
	var reads []Command
	for _, r := range runs {
		reads = append(reads, readsOf(r.keys[0], r.keys[1])...)
	}
	now := conn.Do(ctx, command(0, "TIME"))
	replies := make([]Reply, 0, len(runs))
	for read := range slices.Chunk(conn.DoMany(ctx, reads), 3) {
		if read[1].Int == noKey { // gone since it was read
			read[0] = Reply{Null: true}
		}
		read = append(read, now)
		replies = append(replies, Reply{List: read, Err: firstError(read)})
	}
	return replies
}
