package redisstore

import (
	"context"
	"fmt"

	"github.com/holdfastlock/holdfast/driver"
)

// inboxArg is where the script enqueue has its inbox.
const inboxArg = 4

// Enqueue implements driver.Queuer: one script, one round trip. It is
// ErrUnsupported where there are no scripts, and where an inbox can't be told,
// because the ACL user lacks the channels, or a cluster the sharded ones of Redis
// 7.0.
func (s *Store) Enqueue(ctx context.Context, req driver.QueueRequest) (driver.QueueResult, error) {
	if req.Mode != driver.Exclusive {
		return driver.QueueResult{}, unsupported("a queue is for exclusive holders")
	}
	k, err := keysOf(s.prefix, req.Name)
	if err != nil {
		return driver.QueueResult{}, err
	}
	r := run{
		keys: []string{k.lock, k.companion(), k.queue()},
		args: []string{
			req.Token, milliseconds(req.TTL), fences(req.AcquireRequest), req.Purpose,
			req.Inbox, milliseconds(req.Keep), claimTTL, req.Previous,
		},
	}
	return either(ctx, s, k.lock, func() (driver.QueueResult, error) { return s.enqueue(ctx, k, req, r) },
		func() (driver.QueueResult, error) {
			return driver.QueueResult{}, unsupported("no queue without scripts")
		})
}

func unsupported(hint string) error { return &driver.Error{Kind: driver.ErrUnsupported, Hint: hint} }

func (s *Store) enqueue(ctx context.Context, k keys, req driver.QueueRequest, r run) (driver.QueueResult, error) {
	return s.grant(ctx, req.AcquireRequest, func(ctx context.Context, conn Conn) (driver.QueueResult, error) {
		if conn.Cluster() {
			r.args[inboxArg] = s.inboxes.shard(k, req)
		}
		if s.inboxes.refused.Load() {
			return driver.QueueResult{}, unsupported("no queue without the right to subscribe")
		}
		reply, err := call(ctx, conn, enqueueScript, r).list(1)
		if err != nil {
			return driver.QueueResult{}, err
		}
		return queueResult(req.AcquireRequest, reply)
	})
}

// queueResult reads the answer of the script enqueue.
func queueResult(req driver.AcquireRequest, reply []Reply) (result driver.QueueResult, err error) {
	if result.AcquireResult, err = acquireResult(req, reply); err != nil {
		return driver.QueueResult{}, err
	}
	if !result.Granted {
		before, err := reply[len(reply)-2].number()
		if err != nil {
			return driver.QueueResult{}, fmt.Errorf("place in the queue: %w", err)
		}
		result.Before = int(before)
	}
	if previous := reply[len(reply)-1]; previous.Text != "" {
		result.Previous, err = answerOf(previous)
	}
	return result, err
}
