package goredis

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfastlock/holdfast/driver"
	"github.com/holdfastlock/holdfast/redisstore"
)

const (
	// patience is how long a call waits for a connection, and then for an answer.
	patience = time.Second
	// longestRead is how long a client of a cluster may wait for an answer, whose
	// limit can't be set for us alone.
	longestRead = 2 * time.Second
)

// Conn returns what a redisstore.Store needs of the client, a *redis.Client (of
// one server or of Sentinel) or a *redis.ClusterClient. An error matches
// driver.ErrMisconfigured and says why the client can't be used. Conn does no I/O.
func Conn(client redis.UniversalClient) (redisstore.Conn, error) {
	var err error
	switch client := client.(type) {
	case *redis.Client:
		return single(client), nil
	case *redis.ClusterClient:
		if err = checkCluster(client.Options()); err == nil {
			return conn{sender: client, listener: client, cluster: client}, nil
		}
	case *redis.Ring:
		err = errors.New("a Ring uses another server for a name while one does not answer, and then two hold it; see holdfast's quorum")
	default:
		err = fmt.Errorf("a client of type %T can't be used; give the *redis.Client or *redis.ClusterClient itself", client)
	}
	return nil, &driver.Error{Kind: driver.ErrMisconfigured, Err: err}
}

func checkCluster(options *redis.ClusterOptions) error {
	switch limited := options.ReadTimeout > 0 && options.ReadTimeout <= longestRead; {
	case options.ClusterSlots != nil:
		return errors.New("not a real cluster: with Sentinel use redis.NewFailoverClient")
	case options.ReadOnly: // also with RouteByLatency and RouteRandomly
		return errors.New("locks are kept on the primary: ReadOnly, RouteByLatency and RouteRandomly can't be used")
	case !limited && !options.ContextTimeoutEnabled:
		return fmt.Errorf("set ContextTimeoutEnabled, or a ReadTimeout of %v at most (now %v, where 0 is none): "+
			"it is how long a server that is lost goes unnoticed", longestRead, options.ReadTimeout)
	}
	return nil
}

// single returns a Conn over the client's connections with a limit of its own.
func single(client *redis.Client) conn {
	if limit := client.Options().ReadTimeout; limit <= 0 || limit > patience {
		client = client.WithTimeout(patience)
	}
	return conn{sender: client, listener: client, client: client}
}

// sender is what a client and a connection of its own have in common.
type sender interface {
	Process(ctx context.Context, command redis.Cmder) error
	Pipeline() redis.Pipeliner
	Wait(ctx context.Context, replicas int, timeout time.Duration) *redis.IntCmd
	WaitAOF(ctx context.Context, local, replicas int, timeout time.Duration) *redis.IntSliceCmd
}

// conn is a redisstore.Conn whose commands go by sender: a client, or one of its
// connections.
type conn struct {
	sender
	listener
	client  *redis.Client        // nil if it is of a cluster
	cluster *redis.ClusterClient // else nil
}

// once is a command that the client does not send again, whatever its options.
type once struct{ *redis.Cmd }

// NoRetry implements redis.Cmder.
func (once) NoRetry() bool { return true }

func onceOf(ctx context.Context, command redisstore.Command) once {
	words := make([]any, len(command.Words))
	for i, word := range command.Words {
		words[i] = word
	}
	cmd := redis.NewCmd(ctx, words...)
	cmd.SetFirstKeyPos(int8(command.FirstKey))
	return once{cmd}
}

// Do implements redisstore.Conn.
func (c conn) Do(ctx context.Context, command redisstore.Command) redisstore.Reply {
	if strings.HasPrefix(command.Words[0], "WAIT") {
		return c.wait(ctx, command.Words)
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	cmd := onceOf(ctx, command)
	err := c.Process(ctx, cmd)
	return c.replyOf(cmd, err)
}

// DoMany implements redisstore.Conn.
func (c conn) DoMany(ctx context.Context, commands []redisstore.Command) []redisstore.Reply {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	pipeline := c.Pipeline()
	cmds := make([]once, len(commands))
	for i, command := range commands {
		cmds[i] = onceOf(ctx, command)
		_ = pipeline.Process(ctx, cmds[i]) // it is only noted
	}
	_, err := pipeline.Exec(ctx)
	replies := make([]redisstore.Reply, len(commands))
	for i, cmd := range cmds {
		replies[i] = c.replyOf(cmd, err)
	}
	return replies
}

// Apart implements redisstore.Conn. The connection is one of the client's pool,
// which drops it if it owes an answer. It can't be closed while it is used: when
// ctx ends, what is under way ends as any other call. On such a connection the
// client does not follow MOVED: fn, which has done nothing then, is run again.
func (c conn) Apart(ctx context.Context, key string, fn func(redisstore.Conn) error) error {
	client, err := c.primary(ctx, key)
	if err != nil {
		return c.failure(err)
	}
	err = c.apart(client, fn)
	if address := movedTo(err); address != "" && c.cluster != nil {
		if client = c.at(ctx, address); client != nil {
			return c.apart(client, fn)
		}
	}
	return err
}

func (c conn) apart(client *redis.Client, fn func(redisstore.Conn) error) error {
	alone := client.Conn()
	defer alone.Close()
	return fn(conn{sender: alone, listener: c.listener, client: client, cluster: c.cluster})
}

// at returns a client of the node with that address; nil if it is not known. (To
// load the slots anew does not help: any node is asked, which may not know yet.)
func (c conn) at(ctx context.Context, address string) (found *redis.Client) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var mu sync.Mutex
	_ = c.cluster.ForEachShard(ctx, func(_ context.Context, node *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		if node.Options().Addr == address {
			found = node
		}
		return nil
	})
	return found
}

// primary returns a client of the server that has the key.
func (c conn) primary(ctx context.Context, key string) (*redis.Client, error) {
	if c.cluster == nil {
		return c.client, nil
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return c.cluster.MasterForKey(ctx, key)
}

// Nodes implements redisstore.Conn: the primaries.
func (c conn) Nodes(ctx context.Context) ([]redisstore.Conn, error) {
	if c.cluster == nil {
		return []redisstore.Conn{c}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var mu sync.Mutex
	var nodes []redisstore.Conn
	err := c.cluster.ForEachMaster(ctx, func(_ context.Context, node *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		nodes = append(nodes, single(node))
		return nil
	})
	if err != nil {
		return nil, c.failure(err)
	}
	return nodes, nil
}

// Cluster implements redisstore.Conn.
func (c conn) Cluster() bool { return c.cluster != nil }
