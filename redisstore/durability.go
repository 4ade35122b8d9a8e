package redisstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfastlock/holdfast/driver"
)

// defaultWait is how long a grant waits for replicas or the disk.
const defaultWait = 200 * time.Millisecond

// linger is how long a token whose grant was taken back is refused: longer than
// a request can be on its way.
const linger = 20 * time.Second

// durability says where a grant must be before it counts.
type durability struct {
	replicas int
	fsync    bool
	timeout  time.Duration // of the server
	patience time.Duration // how much longer than that its answer may take
}

func durabilityOf(options Options) durability {
	d := durability{
		replicas: options.WaitReplicas, fsync: options.WaitFsync, timeout: options.WaitTimeout,
		patience: withDefaults(options.Client).ConnWriteTimeout,
	}
	setDefault(&d.timeout, defaultWait)
	return d
}

func checkWait(options Options) error {
	switch {
	case options.WaitReplicas < 0 || options.WaitTimeout < 0:
		return fmt.Errorf("WaitReplicas %d or WaitTimeout %v is negative", options.WaitReplicas, options.WaitTimeout)
	case options.WaitTimeout > 0 && !durabilityOf(options).wanted():
		return fmt.Errorf("WaitTimeout %v without WaitReplicas or WaitFsync: nothing is waited for", options.WaitTimeout)
	}
	return nil
}

// wanted says whether a grant has to wait.
func (d durability) wanted() bool { return d.replicas > 0 || d.fsync }

// grant runs fn, which may grant the name, on a server that may grant it, and
// has the grant wait for what the options ask. Where that is not reached in time
// the name is released, and the error is driver.ErrRefused.
func (s *Store) grant(ctx context.Context, req driver.AcquireRequest,
	fn func(context.Context, Conn) (driver.QueueResult, error),
) (driver.QueueResult, error) {
	return s.guarded(ctx, req, func() (driver.QueueResult, error) {
		if !s.durability.wanted() {
			return ask(ctx, s.connection, fn)
		}
		return s.grantApart(ctx, req, fn)
	})
}

// grantApart is grant where it has to wait.
func (s *Store) grantApart(ctx context.Context, req driver.AcquireRequest,
	fn func(context.Context, Conn) (driver.QueueResult, error),
) (driver.QueueResult, error) {
	return askApart(ctx, s.connection, func(ctx context.Context, conn Conn) (result driver.QueueResult, err error) {
		// WAIT is about what was written before on the same connection, and keeps
		// whatever comes behind it waiting.
		err = conn.Apart(s.connection.life, s.prefix+req.Name, func(alone Conn) error {
			if result, err = fn(ctx, alone); err == nil && result.Granted {
				err = s.settle(ctx, alone, req, &result)
			}
			return err
		})
		return result, err
	})
}

// settle waits for a grant to be where it must be, or takes it back.
func (s *Store) settle(ctx context.Context, conn Conn, req driver.AcquireRequest, result *driver.QueueResult) error {
	reached, synced, err := s.durability.wait(ctx, conn)
	if err == nil && reached >= s.durability.replicas && synced {
		result.Replicas = reached
		return nil
	}
	if _, yes := said(err); err != nil && !yes {
		return err // no answer: the grant may stand
	}
	if failed := s.takeBack(ctx, req); failed != nil {
		return failed
	}
	result.AcquireResult = driver.AcquireResult{}
	if err != nil {
		return err
	}
	return s.durability.shortfall(reached, synced)
}

// takeBack releases a grant that must not count. An earlier request of its token
// may be on its way, and come late.
func (s *Store) takeBack(ctx context.Context, req driver.AcquireRequest) error {
	_, err := s.Release(ctx, driver.ReleaseRequest{Name: req.Name, Token: req.Token, Tombstone: linger})
	return err
}

// wait returns how many replicas have what was written on the connection, and
// whether the server's disk has it, where that is wanted.
func (d durability) wait(ctx context.Context, conn Conn) (replicas int, synced bool, err error) {
	// The client does not watch over a command that may take long.
	ctx, cancel := context.WithTimeout(ctx, d.timeout+d.patience)
	defer cancel()
	limit, asked := milliseconds(d.timeout), decimal(int64(d.replicas)) // 0 ms would be for ever
	if !d.fsync {
		n, err := conn.Do(ctx, command(0, "WAIT", asked, limit)).number()
		return int(n), true, err
	}
	n, err := conn.Do(ctx, command(0, "WAITAOF", "1", asked, limit)).numbers(2)
	if err != nil {
		return 0, false, err
	}
	return int(n[1]), n[0] > 0, nil
}

// shortfall is the error of a grant that did not get far enough.
func (d durability) shortfall(reached int, synced bool) error {
	text := fmt.Sprintf("after %v %d of %d replicas had the grant", d.timeout, reached, d.replicas)
	if d.fsync {
		text += " on their disks"
	}
	if !synced {
		text += ", and the server's own disk had not"
	}
	return &driver.Error{Kind: driver.ErrRefused, Err: errors.New(text), Hint: "the lock was released again; see INFO replication"}
}
