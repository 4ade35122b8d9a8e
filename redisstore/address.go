package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/holdfastlock/holdfast/driver"
)

// noCluster is what a server without slots says when it is asked for them.
const noCluster = ServerError("ERR This instance has cluster support disabled")

// unconnected says what an error of connecting was about.
func (c *connection) unconnected(err error) error {
	master := c.option.Sentinel.MasterSet
	if _, answered := said(err); answered || master == "" {
		return err
	}
	return fmt.Errorf("the primary of %s, by way of Sentinel: %w", master, err)
}

// mistaken returns the error for a command that is unknown because the address
// is not what it was taken for; else nil.
func (c *connection) mistaken(ctx context.Context, text string) error {
	if !strings.Contains(text, "unknown command") {
		return nil
	}
	text, _, _ = strings.Cut(text, ", with args")
	e := &driver.Error{Kind: driver.ErrMisconfigured, Err: errors.New(text)}
	switch {
	case c.option.Sentinel.MasterSet != "" && strings.Contains(text, "SENTINEL"):
		e.Hint = "a server, and no Sentinel: use redis://, or the port of a Sentinel, which often is 26379"
	case strings.Contains(text, "SELECT"), c.isSentinel(ctx): // every server has SELECT
		e.Hint = "a Sentinel, which keeps no locks: use redis+sentinel:// and the name of its master"
	default:
		return nil
	}
	return e
}

// isSentinel asks the server.
func (c *connection) isSentinel(ctx context.Context) bool {
	c.mu.Lock()
	conn := c.conn
	c.mu.Unlock()
	if conn == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.option.ConnWriteTimeout)
	defer cancel()
	return strings.Contains(conn.Do(ctx, command(0, "INFO", "sentinel")).Text, "sentinel_masters:")
}
