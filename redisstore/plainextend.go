package redisstore

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/holdfastlock/holdfast/driver"
)

const (
	// plainChunk is how many leases one transaction extends. More would keep the
	// server from others for long.
	plainChunk = 1000
	// plainAtOnce is how many transactions run at once in a cluster, each of
	// which is about one lease and has a connection.
	plainAtOnce = 16
)

// extension is one lease to extend.
type extension struct {
	keys   keys
	req    driver.ExtendRequest
	result driver.ExtendResult
	left   int64 // of the lock, in ms
}

// extendPlain extends the leases of these requests without scripts, in two round
// trips for up to a thousand. In a cluster it is for one at a time.
func (s *Store) extendPlain(ctx context.Context, reqs []driver.ExtendRequest, which []int) []driver.ExtendResult {
	leases := make([]*extension, len(which))
	for n, i := range which {
		k, _ := keysOf(s.prefix, reqs[i].Name) // a good name: it was looked at
		leases[n] = &extension{keys: k, req: reqs[i]}
	}
	for chunk := range slices.Chunk(leases, plainChunk) {
		s.extendChunk(ctx, chunk)
	}
	results := make([]driver.ExtendResult, len(leases))
	for i, lease := range leases {
		results[i] = lease.result
	}
	return results
}

// extendChunk extends leases of which one transaction may be about. Where it is
// refused because memory is full, or there are none, they are extended one by
// one: a lock that is held must not be lost.
func (s *Store) extendChunk(ctx context.Context, leases []*extension) {
	own := copied(leases)
	got, err := apart(ctx, s, own[0].keys.lock, func(ctx context.Context, t transaction) ([]extension, error) {
		return own, t.extend(ctx, own)
	})
	if full(err) || errors.Is(err, errNoTransactions) {
		own, refused := copied(leases), err
		got, err = ask(ctx, s.connection, func(ctx context.Context, conn Conn) ([]extension, error) {
			lengthen(ctx, conn, own, refused)
			return own, nil
		})
	}
	for i, lease := range leases {
		if err != nil {
			lease.result.Err = err
			continue
		}
		lease.result = got[i].result
		lease.result.Err = s.connection.failure(ctx, lease.result.Err)
	}
}

// copied is for a request that may go on when its caller has gone.
func copied(leases []*extension) []extension {
	own := make([]extension, len(leases))
	for i, lease := range leases {
		own[i] = *lease
	}
	return own
}

// extend is the script extend.
func (t transaction) extend(ctx context.Context, leases []extension) error {
	var locks []string
	var reads []Command
	for _, lease := range leases {
		lock, companion := lease.keys.lock, lease.keys.companion()
		locks = append(locks, lock)
		reads = append(reads, command(1, "GET", lock), command(1, "PTTL", lock), command(1, "PTTL", companion))
	}
	_, err := t.run(ctx, locks, reads, func(read []Reply) (writes []Command, err error) {
		for i := range leases {
			lease := &leases[i]
			if err := lease.compare(read[3*i], read[3*i+1]); err != nil {
				return nil, err
			}
			writes = append(writes, lease.writes(read[3*i+2].Int)...)
		}
		return writes, nil
	})
	if err == nil {
		t.whyGone(ctx, leases)
	}
	return err
}

// compare compares the token with the lock's, and notes what is left of it.
func (e *extension) compare(lock, left Reply) error {
	e.left = left.Int
	e.result = driver.ExtendResult{Answer: driver.Taken}
	switch {
	case lock.Err != nil:
		e.result = driver.ExtendResult{Err: lock.Err}
	case lock.Null:
		e.result.Answer = driver.Gone
	case left.Err != nil:
		e.result = driver.ExtendResult{Err: left.Err}
	case e.left == noKey:
		return errMeanwhile
	case lock.Text == e.req.Token:
		e.result.Answer = driver.Mine
	}
	return nil
}

// short says that the lease is ours and must last longer.
func (e *extension) short() bool {
	return e.result.Err == nil && e.result.Answer == driver.Mine && time.Duration(e.left)*time.Millisecond < e.req.TTL
}

// writes are what the script extend writes for one lease, whose companion lasts
// so many ms more. The lease is watched: so nobody else was granted the name
// since, and the companion's time does not become shorter.
func (e *extension) writes(companion int64) (writes []Command) {
	if e.short() {
		writes = append(writes, command(1, "PEXPIRE", e.keys.lock, milliseconds(e.req.TTL)))
	}
	lasts := companionTTL(e.req.TTL)
	if e.result.Answer == driver.Mine && companion != noKey && time.Duration(companion)*time.Millisecond < lasts/2 {
		writes = append(writes, command(1, "PEXPIRE", e.keys.companion(), milliseconds(lasts)))
	}
	return writes
}

// lengthen extends leases where a transaction is refused. It compares before and
// after PEXPIRE GT, which is not refused when memory is full. So the answer is
// true, and no lease becomes shorter; but one that ends between the two can make
// that of a successor longer.
func lengthen(ctx context.Context, conn Conn, leases []extension, refused error) {
	var reads []Command
	for _, lease := range leases {
		reads = append(reads, command(1, "GET", lease.keys.lock), command(1, "PTTL", lease.keys.lock))
	}
	read := conn.DoMany(ctx, reads)
	var short []*extension
	var writes []Command
	for i := range leases {
		lease := &leases[i]
		if lease.compare(read[2*i], read[2*i+1]) != nil {
			lease.result.Answer = driver.Gone // it has just ended
		}
		if lease.short() {
			short = append(short, lease)
			lock := lease.keys.lock
			writes = append(writes, command(1, "PEXPIRE", lock, milliseconds(lease.req.TTL), "GT"), command(1, "GET", lock))
		}
	}
	if len(short) == 0 {
		return
	}
	for i, reply := range conn.DoMany(ctx, writes) {
		lease := short[i/2]
		switch {
		case i%2 == 1 && lease.result.Err == nil:
			_ = lease.compare(reply, Reply{})
		case reply.Err != nil:
			_, server := said(reply.Err)
			lease.result = driver.ExtendResult{Err: reply.Err}
			if server { // Redis before 7.0 has no GT
				lease.result.Err = refused
			}
		}
	}
}

// whyGone tells of the leases that are gone if the server has evicted keys.
func (t transaction) whyGone(ctx context.Context, leases []extension) {
	var why error
	for i, lease := range leases {
		if lease.result.Err != nil || lease.result.Answer != driver.Gone {
			continue
		}
		if why == nil {
			replies := t.conn.DoMany(ctx, []Command{command(0, "INFO", "stats"), command(0, "INFO", "memory")})
			evicted := infoField(replies[0].Text, "evicted_keys")
			if evicted == "" || evicted == "0" {
				return
			}
			why = evictedKeys("maxmemory-policy " + infoField(replies[1].Text, "maxmemory_policy") + ", evicted_keys " + evicted)
		}
		leases[i].result.Why = why
	}
}
