package open

import (
	"io"
	"time"

	"github.com/holdfastlock/holdfast/driver"
	"github.com/holdfastlock/holdfast/quorum"
	"github.com/holdfastlock/holdfast/redisstore"
)

// longestTTL is the limit of the leases of a quorum, and for how long a node that
// was started takes no part, if the URL does not say.
const longestTTL = time.Minute

// flushDelay is how long a connection to a node waits after it has sent something,
// so that more goes out together. The requests to a quorum come thinly spread over
// its connections; by measurement this gave a fifth more, with 16 goroutines and
// with 64, than what is good for one server, and one goroutine does not notice.
const flushDelay = 200 * time.Microsecond

// quorum reads what is particular to one. All nodes have the shared options.
func (u redisURL) quorum(shared redisstore.Options) (where location, err error) {
	where.quorum = &quorum.Options{}
	if where.quorum.NodeTimeout, err = duration(u.query, "node_timeout", 0); err != nil {
		return where, err
	}
	if shared.AbstainAfterRestart, err = duration(u.query, "longest_ttl", longestTTL); err != nil {
		return where, err
	}
	seen := make(map[string]bool)
	for _, s := range u.servers {
		if seen[s.address] {
			return where, bad("a quorum names a server twice: it would have two votes")
		}
		seen[s.address] = true
		node := shared
		node.Client.InitAddress = []string{s.address}
		node.Client.MaxFlushDelay = flushDelay
		node.Client.Username, node.Client.Password = s.user, s.password
		where.redis = append(where.redis, node)
	}
	return where, nil
}

func openQuorum(where location, opts Options) (driver.Store, io.Closer, error) {
	nodes, closeNodes, err := openNodes(where.redis, opts.Warn)
	if err != nil {
		return nil, nil, err
	}
	store, err := quorum.New(nodes, *where.quorum)
	if err != nil {
		closeNodes()
		return nil, nil, err
	}
	return store, closer(func() { store.Close(); closeNodes() }), nil
}

func openNodes(all []redisstore.Options, warn func(string)) (nodes []driver.Store, closeAll func(), err error) {
	var stores []*redisstore.Store
	closeAll = func() {
		for _, store := range stores {
			store.Close()
		}
	}
	for _, options := range all {
		if warn != nil {
			options.Warn = func(text string) { warn(options.Client.InitAddress[0] + ": " + text) }
		}
		store, err := redisstore.New(options)
		if err != nil {
			closeAll()
			return nil, nil, err
		}
		nodes, stores = append(nodes, store), append(stores, store)
	}
	return nodes, closeAll, nil
}
