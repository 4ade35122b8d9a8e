package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfastlock/holdfast"
)

// locks is a library under measurement, connected to a server. It is used by
// many goroutines at once.
type locks interface {
	// Acquire takes the lock of the key, waiting for it as the library does, and
	// returns what releases it. A call that waits ends soon after ctx does.
	Acquire(ctx context.Context, key string) (release func(context.Context) error, err error)
	Close()
}

// library is one way to lock that is measured.
type library struct {
	name string
	peer bool // not holdfast, nor the bare client
	// quorum says that it locks on all of several servers: its addr has their
	// addresses, with commas between.
	quorum bool
	// outdone says that another peer is always faster: -quick leaves it out.
	outdone bool
	// about says in the table's notes how it is set up.
	about string
	// plain are the commands that it sends outside of scripts, in lower case.
	plain []string
	// prefix is put before a key on the server.
	prefix string
	// open connects; its locks have the TTL.
	open func(ctx context.Context, addr string, ttl time.Duration) (locks, error)
}

// lockTTL is the TTL of all locks but those of the workload keepalive.
const lockTTL = 30 * time.Second

// libraries are measured in this order.
var libraries = []library{
	{
		name: "holdfast", prefix: "lock:", open: openHoldfast,
		about: "as it comes, with fencing tokens and passing in memory",
	},
	{
		name: "holdfast-unfenced", prefix: "lock:", plain: []string{"set"}, open: openUnfenced,
		about: "`WithoutFence`: the bare `SET NX PX`",
	},
	{
		name: "holdfast-nopassing", prefix: "lock:", open: openNoPassing,
		about: "`Config.NoLocalPassing`: every hand-off goes through the server",
	},
	{
		name: "holdfast-lockers", prefix: "lock:", open: openLockers,
		about: "a Locker for each goroutine, on one Store: each waits at the server",
	},
	{
		name: "holdfast-rueidis", prefix: "lock:", open: openGivenRueidis,
		about: "on `redisstore.Rueidis` of a client with `DisableRetry` and default options else",
	},
	{
		name: "holdfast-goredis", prefix: "lock:", open: openGivenGoRedis,
		about: "on `goredis.Conn` of a client with `ContextTimeoutEnabled` and default options else",
	},
	{
		name: "bare", prefix: "lock:", open: openBare,
		about: "no library: rueidis sends the commands of holdfast, with one fixed token",
	},
	{
		name: "bare-unfenced", prefix: "lock:", plain: []string{"set"}, open: openBareUnfenced,
		about: "the same for holdfast-unfenced",
	},
	{
		name: "redislock", peer: true, open: openRedislock,
		about: "on go-redis with its default pool; waits by `ExponentialBackoff(16ms, 256ms)`, new for each call",
	},
	{
		name: "redislock-autopipeline", peer: true, open: openRedislockAutoPipeline,
		about: "the same on `Client.AutoPipeline()` with its default options",
	},
	{
		name: "redsync-goredis", peer: true, outdone: true, plain: []string{"set"}, open: openRedsync(goredisPool),
		about: "on go-redis with its default pool; its default tries (32, then again) and delay (50 to 250 ms)",
	},
	{
		name: "redsync-rueidis", peer: true, plain: []string{"set"}, open: openRedsync(rueidisPool),
		about: "the same on rueidis with its default options",
	},
	{
		name: "rueidislock", peer: true, prefix: "rueidislock:0:", open: openRueidislock,
		about: "`KeyMajority` 1 and `NoLoopTracking`, as its README says for one Redis, and `TryNextAfter` 5 s, since calls may hang when its 20 ms pass; told of releases by client-side caching",
	},
	{
		name: "holdfast-quorum", quorum: true, open: openQuorum(),
		about: "a `quorum.Store` on 5 servers, connected as `open.Open` does: two phases, for the fencing token",
	},
	{
		name: "holdfast-quorum-unfenced", quorum: true, plain: []string{"set"}, open: openQuorum(holdfast.WithoutFence()),
		about: "the same `WithoutFence`: one phase",
	},
	{
		name: "redsync5-goredis", peer: true, quorum: true, plain: []string{"set"}, open: openRedsync(goredisPool),
		about: "redsync on 5 servers, each by go-redis with its default pool; its default tries and delay",
	},
	{
		name: "redsync5-rueidis", peer: true, quorum: true, plain: []string{"set"}, open: openRedsync(rueidisPool),
		about: "the same on rueidis with its default options",
	},
}

func libraryNames() []string {
	var names []string
	for _, lib := range libraries {
		names = append(names, lib.name)
	}
	return names
}

// find returns the library of that name.
func find(name string) (library, error) {
	for _, lib := range libraries {
		if lib.name == name {
			return lib, nil
		}
	}
	return library{}, fmt.Errorf("there is no library %q; there are: %s", name, strings.Join(libraryNames(), ", "))
}

// chosen returns the libraries that the workload compares, less those that are
// not asked for.
func (p plan) chosen(takesPart func(library) bool) []library {
	var chosen []library
	for _, lib := range libraries {
		asked := slices.Contains(p.libraries, lib.name)
		if len(p.libraries) == 0 {
			asked = !p.quick || !lib.outdone
		}
		if asked && takesPart(lib) {
			chosen = append(chosen, lib)
		}
	}
	return chosen
}

// named is for chosen: all peers on one server, and these.
func named(names ...string) func(library) bool {
	return func(lib library) bool { return lib.peer && !lib.quorum || slices.Contains(names, lib.name) }
}

// only is for chosen: these.
func only(names ...string) func(library) bool {
	return func(lib library) bool { return slices.Contains(names, lib.name) }
}

// sent returns how many of the commands that the server counted were sent by
// the library; the others were run by its scripts.
func (lib library) sent(c counts) int {
	sent := c["evalsha"] + c["eval"]
	for _, name := range lib.plain {
		sent += c[name]
	}
	return sent
}
