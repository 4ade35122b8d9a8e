// Package redisstore keeps locks in Redis or Valkey, 6.2 and later.
//
// A lock is a plain string key, the prefix and the name, that holds the token
// and expires with the lease; so any program that locks with SET NX PX and
// frees by compare and delete excludes this store and is excluded by it. What
// else is known of a name lies in companion keys in the same hash slot and
// under the same prefix, and goes away by itself:
//
//	lock:NAME              the token, for as long as the lease lasts
//	lock:~f:{lock:NAME}    fence, token and purpose of the last grant, whether others
//	                       lock the name too, and tombstones: tokens that must not
//	                       acquire any more; a day
//	lock:~q:{lock:NAME}    who waits for the name, the first first; as long as anybody asks
//	lock:~i:…              not a key: the channel of an inbox, where a hand-off is told
//	lock:~q:{lock:NAME}:…  not a key: the same in a cluster, a sharded channel for each name
//	lock:~s:{lock:NAME}:…  a slot of a job that runs once per slot: who ran it
//	lock:~r:{lock:NAME}    which slots of that job were begun last; a month
//
// In a key with a hash tag of its own, as in lock:{tag}x, that tag stands in
// the braces, followed by the key: lock:~f:{tag}lock:{tag}x. (In that of a slot
// the key's length stands before it.)
//
// Promised: one atomic step on one server each time, and fences that grow even
// if all data is lost, as long as the server's clock has not gone back past the
// last grant. Not promised: that a server which loses writes (a crash without
// appendfsync always, a failover to a replica that lagged, eviction) keeps a
// second holder out; the fence is there for that.
//
// The least an ACL user needs is one of
//
//	with scripts      ~lock:* &lock:* +get +pttl +hmget +time +set +hset +pexpire +del +hlen +hdel +scan +info
//	                  +evalsha +eval +hgetall
//	                  +zadd +zrank +zrem +zpopmin +publish +subscribe +unsubscribe
//	                  +zadd +zremrangebyrank +zrevrange
//	without channels  the same, without &lock:* +zpopmin +publish +subscribe +unsubscribe
//	without scripts   ~lock:* &lock:* +get +pttl +hmget +time +set +hset +pexpire +del +hlen +hdel +scan +info
//	                  +watch +multi +exec +hscan +zrange +publish
//	                  +zadd +zremrangebyrank +zrevrange
//
// where scan is for List, info for what is said about eviction, the third line
// of the first is for the queue, zrange and publish are to tell those who wait in
// it, and the last line is for slots. In a cluster the queue needs +spublish
// +ssubscribe +sunsubscribe in place of the three without the s, and the client
// +cluster. To wait for replicas needs +wait or +waitaof too. ListForeign reads all
// keys, by
//
//	%R~* +scan +type +getrange +hrandfield +hlen +zrange +zcard +zscore +pttl
//
// Where the server does not let us run scripts, each step is a transaction that
// comes to nothing if its keys were changed meanwhile: the same data, the same
// fences, beside clients that have scripts, but two round trips instead of one on a
// connection of its own, and no queue: who waits polls. A release is one round trip
// where the server has DELIFEQ or DELEX and the ACL user may use it. Where there
// are no transactions either, a lock can be had without a fence only, and be
// released only by these. What a server forbids is found out by trying, and
// tried again after a minute or when a connection was lost.
package redisstore

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfastlock/holdfast/driver"
)

// DefaultPrefix is put before a name to make its key.
const DefaultPrefix = "lock:"

// Options configures a Store.
type Options struct {
	// Client says how to reach the server or servers: InitAddress at least. A
	// lost server is noticed within about a second unless Dialer.Timeout,
	// Dialer.KeepAlive or ConnWriteTimeout is set otherwise; keep them well
	// below the TTL. DisableRetry and DisableCache are always set, and commands
	// always pipelined.
	Client rueidis.ClientOption
	// Cluster says that Client has the addresses of nodes of a cluster, and has a
	// server that is none refused. Without it a cluster is used as well, if Client
	// has the one address of one of its nodes or those of several.
	Cluster bool
	// Conn is a client of the caller's, in place of Client. Each call to it has a
	// goroutine of its own, so that callers whose contexts end neither wait for it
	// nor disturb each other on its connections.
	Conn Conn
	// Prefix is put before a name to make its key; empty means DefaultPrefix.
	// All other keys and channels begin with it too.
	Prefix string
	// Warn, if not nil, is told once each, in one line, when the server is set up so
	// that it may drop a lock that is held, when it lets us run no scripts, and
	// when those who wait must poll. It is called on a goroutine of the store or of
	// a caller and should return soon.
	Warn func(text string)
	// RequireNoEviction has Acquire and Enqueue refuse, with an error that
	// matches driver.ErrMisconfigured, while the maxmemory-policy of a server is
	// another than noeviction, whatever its maxmemory is. It is looked up before
	// the first grant, every 10 s, and after a connection was lost; the ACL user
	// needs +info. Eviction is not warned of then.
	RequireNoEviction bool
	// WaitReplicas is how many replicas must have a grant before it counts, by
	// WAIT. If they have not within WaitTimeout, the name is released and the
	// error matches driver.ErrRefused. Extensions and slots are not waited for.
	WaitReplicas int
	// WaitFsync has a grant count when it is on the disk of the server, which
	// needs appendonly, and on those of WaitReplicas replicas, by WAITAOF: Redis
	// 7.2 or Valkey.
	WaitFsync bool
	// WaitTimeout is how long a grant waits for that; 0 means 200 ms. It is part
	// of the time for which the lease is trusted: keep it well below the TTL.
	WaitTimeout time.Duration
	// AbstainAfterRestart has Acquire, Enqueue and RaiseFence refuse, with an error
	// that matches driver.ErrUnreachable, until the server has been up for as long,
	// and a second, by its own clock. Set to the longest TTL (with its lock delay)
	// it makes sure that no lease is forgotten by a restart without the last
	// writes, as a node of a quorum needs. It is looked up by INFO before the first
	// grant and after a connection was lost; with Conn, WaitReplicas or WaitFsync
	// before and after each grant. The ACL user needs +info.
	AbstainAfterRestart time.Duration
}

// Store keeps locks in Redis or Valkey. It implements driver.Store,
// driver.Queuer, driver.Lister, driver.ForeignLister, driver.SlotKeeper and
// driver.FenceRaiser, and is safe for concurrent use.
type Store struct {
	prefix     string
	connection *connection
	inboxes    inboxes
	eviction   *evictionGuard // nil unless required
	restart    *restartGuard  // nil unless asked for
	durability durability
	plain      plain
	warn       func(text string)
}

var (
	_ driver.Store         = (*Store)(nil)
	_ driver.Queuer        = (*Store)(nil)
	_ driver.Lister        = (*Store)(nil)
	_ driver.SlotKeeper    = (*Store)(nil)
	_ driver.ForeignLister = (*Store)(nil)
	_ driver.FenceRaiser   = (*Store)(nil)
)

// New returns a store, or an error that matches driver.ErrMisconfigured. It
// does no I/O: the first call of another method connects.
func New(options Options) (*Store, error) {
	if options.Prefix == "" {
		options.Prefix = DefaultPrefix
	}
	if err := check(options); err != nil {
		return nil, &driver.Error{Kind: driver.ErrMisconfigured, Err: err}
	}
	s := &Store{
		prefix: options.Prefix, warn: options.Warn,
		restart: restartGuardOf(options), durability: durabilityOf(options),
	}
	if options.RequireNoEviction {
		options.Warn = nil
		s.eviction = &evictionGuard{}
	}
	s.connection = newConnection(options)
	return s, nil
}

func check(options Options) error {
	client := options.Client
	switch {
	case options.Conn != nil:
		if len(client.InitAddress) > 0 || options.Cluster {
			return errors.New("Conn is set, and Client or Cluster too")
		}
	case len(client.InitAddress) == 0:
		return errors.New("no address of a Redis server")
	case client.DialFn != nil || client.DisableTCPNoDelay:
		return errors.New("DialFn and DisableTCPNoDelay can't be used; use DialCtxFn")
	case client.ReplicaOnly || client.SendToReplicas != nil:
		return errors.New("locks are kept on the primary: ReplicaOnly and SendToReplicas can't be used")
	}
	if options.AbstainAfterRestart < 0 {
		return fmt.Errorf("AbstainAfterRestart %v is negative", options.AbstainAfterRestart)
	}
	if err := checkWait(options); err != nil {
		return err
	}
	if strings.Contains(options.Prefix, "\n") { // which parts the messages of a queue
		return errors.New("the prefix has a line's end")
	}
	if _, err := keysOf(options.Prefix, "x"); err != nil {
		return errors.New("no name can be put after the prefix " + options.Prefix + ": its braces do not pair")
	}
	return nil
}

// withDefaults sets what the user has not. By default one caller's ended
// context could fail its neighbours on the connection (hence AlwaysPipelining),
// a lost server would be noticed after ten seconds, and a retry could run a
// command twice: the locker knows when to retry, the client does not. The flush
// delay, which one call at a time does not have, was chosen by measurement: 50 µs
// gave a fifth more than 20 with 64 goroutines, 100 a quarter less with 16.
func withDefaults(client rueidis.ClientOption) rueidis.ClientOption {
	client.DisableAutoPipelining, client.AlwaysPipelining = false, true
	client.DisableRetry, client.DisableCache = true, true
	setDefault(&client.PipelineMultiplex, -1) // one connection to a server
	setDefault(&client.MaxFlushDelay, 50*time.Microsecond)
	setDefault(&client.ConnWriteTimeout, 500*time.Millisecond)
	setDefault(&client.Dialer.Timeout, time.Second)
	setDefault(&client.Dialer.KeepAlive, 250*time.Millisecond)
	setDefault(&client.Sentinel.Dialer.Timeout, client.Dialer.Timeout)
	setDefault(&client.Sentinel.Dialer.KeepAlive, client.Dialer.KeepAlive)
	setDefault(&client.Sentinel.TopologyRefreshInterval, 5*time.Second) // in case that it missed a message
	setDefault(&client.ClusterOption.MaxMovedRedirections, 5)           // else without end
	return client
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Close ends the inboxes and the connections, and returns when nothing of
// the store runs any more. Calls still waiting for an answer fail. It may be
// called again.
func (s *Store) Close() {
	s.inboxes.close()
	s.connection.close()
}

// Capabilities implements driver.Store. A fence is at least the server's clock
// in microseconds, so it grows whatever happened to the data.
func (s *Store) Capabilities() driver.Capabilities {
	return driver.Capabilities{FenceSurvivesRestart: true, FenceSurvivesWipe: true}
}
