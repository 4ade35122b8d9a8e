// Package redisfence lets Redis or Valkey refuse the writes of stale lock
// holders. The check and the write are one script at the server:
//
//	reports := redisfence.New(client, redisfence.Options{Prefix: "app:"})
//	err := reports.Touch(ctx, "app:report", owner, lease.Fence())
//	... // read
//	err = reports.Set(ctx, "app:report", owner, lease.Fence(), body)
//	// *fence.StaleError: a later holder was here
//
// What is more than one SET is a Script. All writers of the resource have to go
// this way: Redis itself doesn't know that the key is guarded.
//
// The largest fence of a resource is kept in a hash beside it, the mark: with the
// prefix app: that of app:report is app:~t:{app:report}. It is in the slot of the
// resource, so that one script may use both, also in a cluster.
//
// A mark has no TTL unless Options.TTL asks for one, since a resource whose mark
// is gone lets every fence in; for the same reason the server must not evict
// it (maxmemory-policy noeviction, or one of the volatile policies, which spare
// keys without TTL). A restart or failover that loses the last writes loses those
// of the data with those of the mark: what is then refused is what the data
// that is left has seen, and no more. Resources that must not lose an accepted
// write belong on a store that does not lose it: sqlfence, pgxfence.
package redisfence

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfastlock/holdfast/fence"
	"github.com/holdfastlock/holdfast/internal/redisslot"
)

// Options says how marks are kept.
type Options struct {
	// Prefix is put before the key of each mark. With the prefix of the
	// resources, an ACL rule such as ~app:* covers their marks, too.
	Prefix string
	// TTL is how long a mark is kept after the last accepted fence, in whole
	// milliseconds; 0 is for ever. It must be longer than any request of an older
	// holder can be late, since without the mark that is accepted.
	TTL time.Duration
}

// Writer writes to guarded resources. It may be used by many goroutines at once.
type Writer struct {
	client  rueidis.Client
	options Options
}

// New returns a Writer. It does no I/O; the caller closes the client after the
// last use.
func New(client rueidis.Client, options Options) *Writer { return &Writer{client, options} }

// Script is a script of the user's that is run if the fence is accepted.
type Script struct{ lua *rueidis.Lua }

//go:embed guard.lua
var guard string

// NewScript takes the text of a script as EVAL does: it has KEYS and ARGV, and
// may return a result. It is sent as EVALSHA, and in full only to a server that
// does not know it, so make it once.
func NewScript(text string) *Script {
	return &Script{rueidis.NewLuaScript(guard + text + `
end
local result = script({unpack(KEYS, 2)}, {unpack(ARGV, 4)})
if result == nil then result = false end
return {0, result}`)}
}

var (
	touch = NewScript("")
	set   = NewScript("return redis.call('SET', KEYS[1], ARGV[1])")
)

// Touch shows a fence to the resource: from now on every smaller one is refused.
// A holder does this before it reads what it is going to change. A resource is a
// key, or a name for several. Owner says who holds the lease, in a way that no
// two leases share, but not by the lease's token, which is a secret.
//
// The error is a *fence.StaleError, a *fence.ConflictError, fence.ErrNoFence, or
// that of the server or the connection. After one of the connection it is not
// known whether the script ran; it may be repeated, since a fence that was
// accepted is accepted again.
func (w *Writer) Touch(ctx context.Context, resource, owner string, shown int64) error {
	_, err := w.Run(ctx, touch, resource, owner, shown, nil, nil)
	return err
}

// Set shows a fence as Touch does and, in one step, sets the key of that name. A
// TTL that the key has is removed, as by the command SET.
func (w *Writer) Set(ctx context.Context, key, owner string, shown int64, value string) error {
	_, err := w.Run(ctx, set, key, owner, shown, []string{key}, []string{value})
	return err
}

// Run shows a fence as Touch does and, in one step, runs the script, whose result
// it returns. The keys must be in the slot of the resource. If the script fails,
// the fence was seen, and what the script did before it failed stays.
func (w *Writer) Run(ctx context.Context, script *Script, resource, owner string, shown int64, keys, args []string) (rueidis.RedisMessage, error) {
	if shown <= 0 {
		return rueidis.RedisMessage{}, fence.ErrNoFence
	}
	mark, err := w.mark(resource, keys)
	if err != nil {
		return rueidis.RedisMessage{}, err
	}
	ours := []string{strconv.FormatInt(shown, 10), owner, strconv.FormatInt(w.options.TTL.Milliseconds(), 10)}
	answer, err := script.lua.Exec(ctx, w.client, append([]string{mark}, keys...), append(ours, args...)).ToArray()
	if err != nil {
		return rueidis.RedisMessage{}, err
	}
	return judge(answer, resource, owner, shown)
}

// mark returns the key of the mark, which is in the slot of the keys.
func (w *Writer) mark(resource string, keys []string) (string, error) {
	mark := w.options.Prefix + "~t:{" + resource + "}"
	if tag, found := redisslot.Tag(resource); found {
		mark = w.options.Prefix + "~t:{" + tag + "}" + resource
	}
	if slot := redisslot.Hashed(mark); slot != redisslot.Hashed(resource) {
		return "", fmt.Errorf("resource %q, with prefix %q, can't have its mark in its slot because of the braces; leave out '}', or put a text between '{' and '}'", resource, w.options.Prefix)
	}
	for _, key := range keys {
		if redisslot.Hashed(key) != redisslot.Hashed(mark) {
			return "", fmt.Errorf("key %q is not in the slot of resource %q; give both the same {tag}", key, resource)
		}
	}
	return mark, nil
}

// judge returns the result of the user's script, or why it was not run.
func judge(answer []rueidis.RedisMessage, resource, owner string, shown int64) (rueidis.RedisMessage, error) {
	if len(answer) == 2 {
		err := answer[1].Error()
		if rueidis.IsRedisNil(err) {
			err = nil // a script may return nothing
		}
		return answer[1], err
	}
	if len(answer) != 3 {
		return rueidis.RedisMessage{}, errors.New("the script returned something else than it was written to")
	}
	newest, err := answer[1].AsInt64()
	if err != nil {
		return rueidis.RedisMessage{}, err
	}
	first, err := answer[2].ToString()
	if err != nil {
		return rueidis.RedisMessage{}, err
	}
	return rueidis.RedisMessage{}, fence.Mark{Fence: newest, Owner: first}.Check(resource, owner, shown)
}
