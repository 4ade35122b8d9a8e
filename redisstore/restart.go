package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/holdfastlock/holdfast/driver"
)

// uptimeStep is how exact a server's uptime is: it counts in whole seconds.
const uptimeStep = time.Second

// restartGuard keeps grants from servers that have started too lately to know all
// leases.
type restartGuard struct {
	lookout
	after time.Duration // the start
	// blind says that a connection may be lost unnoticed: by a client of the
	// caller's, or while a grant has one of its own.
	blind bool
}

func restartGuardOf(options Options) *restartGuard {
	if options.AbstainAfterRestart == 0 {
		return nil
	}
	return &restartGuard{
		after: options.AbstainAfterRestart,
		blind: options.Conn != nil || durabilityOf(options).wanted(),
	}
}

// look returns an error if a server must not grant yet, or that can't be found
// out. A nil guard guards nothing.
func (g *restartGuard) look(ctx context.Context, c *connection) error {
	if g == nil || !g.blind && g.fresh(c, 0) {
		return nil
	}
	losses, began := c.lossesSoFar(), time.Now()
	up, err := ask(ctx, c, shortestUptime)
	var refused *driver.Error
	switch {
	case errors.As(err, &refused) && errors.Is(err, driver.ErrRefused):
		return &driver.Error{Kind: driver.ErrRefused, Err: refused.Err, Hint: "to abstain after a restart needs INFO: ACL SETUSER … +info"}
	case err != nil:
		return err
	case up < g.after+uptimeStep:
		return &driver.Error{
			Kind: driver.ErrUnreachable,
			Err:  fmt.Errorf("the server has been up for %v and must have been for %v", up, g.after+uptimeStep),
			Hint: "after a restart it grants nothing until the leases from before have ended",
		}
	}
	g.found(began, losses)
	return nil
}

// allows returns an error for a lease that might go on when a restarted server
// grants again. A nil guard allows all.
func (g *restartGuard) allows(ttl time.Duration) error {
	if g == nil || ttl <= g.after {
		return nil
	}
	return &driver.Error{
		Kind: driver.ErrMisconfigured,
		Err:  fmt.Errorf("a TTL of %v is longer than the %v for which a server that was restarted abstains", ttl, g.after),
		Hint: "AbstainAfterRestart, or longest_ttl in the URL, is the longest TTL",
	}
}

// shortestUptime returns how long the server that was started last has been up.
func shortestUptime(ctx context.Context, conn Conn) (time.Duration, error) {
	nodes, err := conn.Nodes(ctx)
	if err != nil {
		return 0, err
	}
	var shortest time.Duration
	for i, node := range nodes {
		info := node.Do(ctx, command(0, "INFO", "server"))
		if info.Err != nil {
			return 0, info.Err
		}
		seconds, err := strconv.Atoi(infoField(info.Text, "uptime_in_seconds"))
		if err != nil {
			return 0, &driver.Error{Kind: driver.ErrMisconfigured, Err: errors.New("the server does not say its uptime")}
		}
		if up := time.Duration(seconds) * time.Second; i == 0 || up < shortest {
			shortest = up
		}
	}
	return shortest, nil
}

// guarded runs fn, which may grant the name, if the servers are fit for it. A
// server that was started anew between the look and the grant is found out by
// another look, and the grant is taken back.
func (s *Store) guarded(ctx context.Context, req driver.AcquireRequest, fn func() (driver.QueueResult, error)) (driver.QueueResult, error) {
	if err := s.restart.allows(req.TTL); err != nil {
		return driver.QueueResult{}, err
	}
	if err := s.eviction.look(ctx, s.connection); err != nil {
		return driver.QueueResult{}, err
	}
	if err := s.restart.look(ctx, s.connection); err != nil {
		return driver.QueueResult{}, err
	}
	result, err := fn()
	if err != nil || !result.Granted {
		return result, err
	}
	if err = s.restart.look(ctx, s.connection); err != nil {
		result.AcquireResult = driver.AcquireResult{}
		if failed := s.takeBack(ctx, req); failed != nil {
			err = failed
		}
	}
	return result, err
}
