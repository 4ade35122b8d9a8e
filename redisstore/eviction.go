package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/holdfastlock/holdfast/driver"
)

// noEviction is the policy under which a server refuses writes instead of
// dropping keys. Where maxmemory is 0 the policy does nothing, but that can be
// changed at any time: the policy counts.
const noEviction = "noeviction"

// evictingPolicy returns the maxmemory-policy of a server that may evict keys,
// or "" if there is none; an error if a server does not say.
func evictingPolicy(ctx context.Context, conn Conn) (string, error) {
	nodes, unknown := conn.Nodes(ctx)
	for _, node := range nodes {
		info := node.Do(ctx, command(0, "INFO", "memory"))
		policy := infoField(info.Text, "maxmemory_policy")
		switch {
		case info.Err != nil:
			unknown = info.Err
		case policy == "":
			unknown = &driver.Error{Kind: driver.ErrMisconfigured, Err: errors.New("the server does not say its maxmemory-policy")}
		case policy != noEviction:
			return policy, nil
		}
	}
	return "", unknown
}

// warnOfEviction calls warn if a server may evict keys. That it can't be found
// out is no reason not to lock.
func warnOfEviction(conn Conn, warn func(string)) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if policy, _ := evictingPolicy(ctx, conn); policy != "" {
		warn("Redis has maxmemory-policy " + policy + ": when memory is full it may drop a lock that is held, " +
			"and then two hold it; CONFIG SET maxmemory-policy noeviction, or use a server of its own for locks")
	}
}

// lookEvery is how long a look at the policy holds: it can be changed at run
// time.
const lookEvery = 10 * time.Second

// evictionGuard keeps grants from servers that may evict them.
type evictionGuard struct{ lookout }

// look returns an error if a server may evict keys, or that can't be found out.
// A nil guard guards nothing.
func (g *evictionGuard) look(ctx context.Context, c *connection) error {
	if g == nil || g.fresh(c, lookEvery) {
		return nil
	}
	losses, began := c.lossesSoFar(), time.Now()
	policy, err := ask(ctx, c, evictingPolicy)
	var refused *driver.Error
	switch {
	case errors.As(err, &refused) && errors.Is(err, driver.ErrRefused):
		return &driver.Error{Kind: driver.ErrRefused, Err: refused.Err, Hint: "to require noeviction needs INFO: ACL SETUSER … +info"}
	case err != nil:
		return err
	case policy != "":
		return &driver.Error{
			Kind: driver.ErrMisconfigured,
			Err:  fmt.Errorf("the server has maxmemory-policy %s and may drop a lock that is held", policy),
			Hint: "CONFIG SET maxmemory-policy noeviction, or use a server of its own for locks",
		}
	}
	g.found(began, losses)
	return nil
}

// infoField returns a field of an answer to INFO, or "".
func infoField(info, name string) string {
	_, rest, _ := strings.Cut(info, "\n"+name+":")
	value, _, _ := strings.Cut(rest, "\r\n")
	return value
}

// evictedKeys is why a lease may be gone.
func evictedKeys(text string) error { return errors.New("the server has evicted keys: " + text) }
