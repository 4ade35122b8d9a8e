package main

import (
	"github.com/holdfastlock/holdfast/internal/redistest"
	"github.com/holdfastlock/holdfast/torture/history"
	"github.com/holdfastlock/holdfast/torture/nemesis"
)

// backend are the servers of a run, which are its own.
type backend interface {
	// start runs them. What was started is to be closed also after an error.
	start() error
	// store says where worker n finds the locks: Store and Networks of its
	// settings.
	store(n int) (url string, networks map[string]string)
	// proxies are what is between worker n and the servers.
	proxies(n int) []*redistest.Proxy
	// aboutLocks is in every request about a lock that passes them.
	aboutLocks(n int) string
	// actions are what each kind of fault does to the servers.
	actions() map[string]serverAction
	// locks returns the locks that are held, and by whom.
	locks() (map[string]string, error)
	// places returns the places in queues for tokens of an owner who is not among
	// the killed.
	places(killed map[string]bool) (map[string]string, error)
	// versions are those of the servers, by what they are.
	versions() map[string]string
	close()
}

// serverAction begins a fault and returns what heals it, which is nil for one of a
// moment.
type serverAction = func(nemesis.Fault) (heal func() error, err error)

// storeKinds are what -store can be.
var storeKinds = []string{"redis", "sentinel", "cluster", "quorum", "postgres", "local"}

// newBackend returns the servers of a run in dir, or nil if its store needs none.
// They may add to the history.
func newBackend(o options, dir string, record func(history.Event)) backend {
	switch o.store {
	case "redis":
		return &servers{options: o, dir: dir}
	case "sentinel":
		return &sentinels{options: o, dir: dir, record: record}
	case "cluster":
		return &cluster{options: o, dir: dir, record: record}
	case "quorum":
		return &nodes{options: o, dir: dir}
	case "postgres":
		return &postgres{options: o}
	default:
		return nil
	}
}
