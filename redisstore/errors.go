package redisstore

import (
	"context"
	"errors"
	"strings"

	"github.com/holdfastlock/holdfast/driver"
)

// fault is what an error of the server means for a lock.
type fault struct {
	kind error
	hint string
}

const moving = "the slot is just moving to another node"

// faults are the server's errors by their first word.
var faults = map[string]fault{
	"LOADING":     {driver.ErrUnreachable, "the server is still reading its data"},
	"MASTERDOWN":  {driver.ErrUnreachable, "a replica without its primary: use the primary's address, or wait"},
	"BUSY":        {driver.ErrUnreachable, "a script of somebody's has run too long: SCRIPT KILL ends it"},
	"CLUSTERDOWN": {driver.ErrUnreachable, "the cluster is not complete: see CLUSTER INFO"},
	"TRYAGAIN":    {driver.ErrUnreachable, moving},
	"ASK":         {driver.ErrUnreachable, moving},
	"READONLY":    {driver.ErrRefused, "a read-only replica: use the primary's address, or Sentinel"},
	"NOREPLICAS":  {driver.ErrRefused, "too few replicas are in touch: see min-replicas-to-write"},
	"OOM":         {driver.ErrRefused, "the server's memory is full: raise maxmemory or remove data"},
	"MISCONF":     {driver.ErrRefused, "the server can't write to its disk: see its log"},
	"NOPERM":      {driver.ErrRefused, "the ACL user lacks a right: holdfast needs the keys and channels of its prefix, and scripts or transactions"},
	"NOAUTH":      {driver.ErrRefused, "the server wants a password: put it in the URL"},
	"WRONGPASS":   {driver.ErrRefused, "wrong user or password"},
	"DENIED":      {driver.ErrRefused, "protected mode: set a password on the server, or bind it to an address"},
	"WRONGTYPE":   {driver.ErrMisconfigured, "a key of this name exists that is not a lock: choose another name or prefix"},
	"CROSSSLOT":   {driver.ErrMisconfigured, "a cluster behind one address: use the addresses of its nodes"},
	"MOVED":       {driver.ErrMisconfigured, "a cluster node used as a single server: the user needs +cluster"},
}

// phrases are errors of the server that have no word of their own.
var phrases = []struct {
	text string
	fault
}{
	{"max number of clients", fault{driver.ErrUnreachable, "the server has no connection left: see maxclients"}},
	{"ACL failure in script", faults["NOPERM"]},
	{"DB index", fault{driver.ErrMisconfigured, "the server has no database of this number"}},
	{"No such master", fault{driver.ErrMisconfigured, "the sentinels watch no primary of this name"}},
	{"appendonly is disabled", fault{driver.ErrMisconfigured, "to wait for the disk needs appendonly yes"}},
	{"cluster support disabled", fault{driver.ErrMisconfigured, "the server is no cluster: use redis://"}},
	{"SELECT is not allowed in cluster mode", fault{driver.ErrMisconfigured, "in a cluster use the database 0, and keep programs apart by the prefix"}},
	{"without any password configured", fault{driver.ErrRefused, "the server has no password for this user: leave it out"}},
	{"unknown command", fault{driver.ErrRefused, "the server lacks or forbids this command, which holdfast needs"}},
}

// demoted and moved are what READONLY and MOVED mean to a client that knows of
// several servers: it has not heard of a change yet.
var (
	demoted = fault{driver.ErrUnreachable, "the server has just become a replica"}
	moved   = fault{driver.ErrUnreachable, moving}
)

// otherFault is for the server's errors that are not listed. The scripts do
// nothing before the step that can be refused, and undo it if a later one is.
var otherFault = fault{kind: driver.ErrRefused}

// faultOf finds the meaning of a server's error. The word stands first, except
// that Redis before 7.0 wraps what a script raises: "ERR Error running script
// (call to f_…): @user_script:7: -OOM command not allowed …".
func faultOf(text string) fault {
	words := strings.Fields(text)
	if len(words) == 0 {
		return otherFault
	}
	if f, found := faults[words[0]]; found {
		return f
	}
	for _, phrase := range phrases {
		if strings.Contains(text, phrase.text) {
			return phrase.fault
		}
	}
	for _, word := range words {
		if f, found := faults[strings.TrimLeft(word, "-")]; found {
			return f
		}
	}
	return otherFault
}

// failure turns an error of the client into one of driver's.
func (c *connection) failure(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if known := (*driver.Error)(nil); errors.Is(err, driver.ErrWithdrawn) || errors.As(err, &known) {
		return err
	}
	if text, yes := said(err); yes {
		if other := c.mistaken(ctx, text); other != nil {
			return other
		}
		return c.refusal(text)
	}
	return driver.NoAnswer(ctx, err)
}

// refusal makes an error of what the server said.
func (c *connection) refusal(text string) error {
	f := c.fault(text)
	return &driver.Error{Kind: f.kind, Hint: f.hint, Err: errors.New(c.withoutSecrets(text))}
}

// fault is faultOf for these servers.
func (c *connection) fault(text string) fault {
	f := faultOf(text)
	sentinel := c.option.Sentinel.MasterSet != ""
	switch f {
	case faults["READONLY"]:
		c.leave()
		if sentinel {
			return demoted
		}
	case faults["MOVED"]:
		if c.clustered() {
			return moved
		}
	case faults["NOAUTH"], faults["WRONGPASS"]:
		if sentinel {
			f.hint += "; the sentinels have one of their own (sentinel_password), or none"
		}
	}
	return f
}

func (c *connection) clustered() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.conn != nil && c.conn.Cluster()
}

// withoutSecrets takes the passwords out: a server that does not know a command
// repeats its arguments.
func (c *connection) withoutSecrets(text string) string {
	for _, secret := range []string{c.option.Password, c.option.Sentinel.Password} {
		if secret != "" {
			text = strings.ReplaceAll(text, secret, "***")
		}
	}
	return text
}
