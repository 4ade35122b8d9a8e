package main

import (
	"context"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfastlock/holdfast"
	"github.com/holdfastlock/holdfast/driver"
	"github.com/holdfastlock/holdfast/quorum"
	"github.com/holdfastlock/holdfast/redisstore"
)

// quorumNodes is how many independent servers the workload quorum has.
const quorumNodes = 5

// inQuorum is for chosen: all that lock on several servers.
func inQuorum(lib library) bool { return lib.quorum }

// startQuorum starts the servers and returns the first, with the addresses of
// all: what is counted of commands and of the server's CPU time is that one's.
func startQuorum(ctx context.Context) (*server, error) {
	first, err := startServer(ctx)
	if err != nil {
		return nil, err
	}
	for range quorumNodes - 1 {
		other, err := startServer(ctx)
		if err != nil {
			first.stop()
			return nil, err
		}
		first.others = append(first.others, other)
		first.addr += "," + other.addr
	}
	return first, nil
}

// measureQuorum measures keys of their own, and one key for 16 goroutines.
func (r *report) measureQuorum(ctx context.Context, p plan) error {
	s, err := startQuorum(ctx)
	if err != nil {
		return err
	}
	defer s.stop()
	if r.Quorum, err = measureOwn(ctx, s, p, inQuorum, p.goroutinesOr(1, 64)); err != nil {
		return err
	}
	contended, err := measureContended(ctx, s, p, contest{
		"quorum", 1, 16, 0, 2 * p.duration / 5, 2 * p.duration * 4 / 5, inQuorum,
	})
	r.Contended = append(r.Contended, contended...)
	return err
}

func openQuorum(options ...holdfast.AcquireOption) func(context.Context, string, time.Duration) (locks, error) {
	return func(_ context.Context, addresses string, ttl time.Duration) (locks, error) {
		var nodes []driver.Store
		var closers []func()
		closeAll := func() {
			for _, closeOne := range closers {
				closeOne()
			}
		}
		for _, addr := range strings.Split(addresses, ",") {
			node, err := redisstore.New(redisstore.Options{Client: rueidis.ClientOption{
				InitAddress: []string{addr}, MaxFlushDelay: 200 * time.Microsecond, // as open.Open has it
			}})
			if err != nil {
				closeAll()
				return nil, err
			}
			nodes, closers = append(nodes, node), append(closers, node.Close)
		}
		store, err := quorum.New(nodes, quorum.Options{})
		if err != nil {
			closeAll()
			return nil, err
		}
		closers = append([]func(){store.Close}, closers...) // it uses them until then
		return lockOn(store, closeAll, holdfast.Config{TTL: ttl}, options...)
	}
}
