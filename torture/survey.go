package main

import (
	"context"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/holdfastlock/holdfast/driver"
	"github.com/holdfastlock/holdfast/sqlitestore"
	"github.com/holdfastlock/holdfast/torture/history"
	"github.com/holdfastlock/holdfast/torture/nemesis"
	"github.com/holdfastlock/holdfast/torture/worker"
)

// survey records the locks that are there although every lease has been released
// or has had the time to end. The own locks of workers that were killed have long
// leases and may be there. So with places in queues: whoever gives up, or ends,
// must leave none, but those of workers that were killed stay for a while. What a
// store keeps beside the locks, to know the order
// of grants, withdrawn acquires and runs, has its own time to live and does not
// count.
func (r *run) survey() error {
	killed := r.killed()
	deadline := time.Now().Add(2*r.options.ttl + time.Second)
	for {
		left, err := r.locks()
		if err != nil {
			return err
		}
		maps.DeleteFunc(left, func(name, _ string) bool { return killed[ownerOf(name)] })
		places, err := r.places(killed)
		if err != nil {
			return err
		}
		maps.Copy(left, places)
		if len(left) == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			for name, note := range left {
				r.add(history.Event{At: history.Now(), Kind: history.Left, Process: nemesis.Process, Name: name, Note: note})
			}
			return nil
		}
		time.Sleep(r.options.ttl / 20)
	}
}

// killed are the workers that had no chance to release.
func (r *run) killed() map[string]bool {
	killed := make(map[string]bool)
	for _, e := range r.history() {
		if e.Kind == history.Fault && e.Fault == nemesis.Kill.Name {
			killed[e.Name] = true
		}
	}
	return killed
}

// ownerOf returns the worker whose own lock a name is, if it is one.
func ownerOf(name string) string {
	_, own, _ := strings.Cut(name, worker.Own) // a peer may put something before it
	owner, _, _ := strings.Cut(own, "/")
	return owner
}

// locks returns the locks that are held, and by whom.
func (r *run) locks() (map[string]string, error) {
	if r.backend == nil {
		return r.localLocks()
	}
	return r.backend.locks()
}

// places returns the places in queues that nobody should have any more. After a
// failover there may be some that had been given up: the replica had not heard
// of it.
func (r *run) places(killed map[string]bool) (map[string]string, error) {
	if r.backend == nil || slices.ContainsFunc(r.options.kinds, r.promoted) {
		return nil, nil
	}
	return r.backend.places(killed)
}

// promoted says whether there was such a fault, and a server that may have lagged
// took over by it.
func (r *run) promoted(kind nemesis.Kind) bool {
	return kind.Promotes && slices.ContainsFunc(r.history(), func(e history.Event) bool {
		return e.Kind == history.Fault && e.Fault == kind.Name
	})
}

func (r *run) localLocks() (map[string]string, error) {
	store, err := sqlitestore.Open(context.Background(), filepath.Join(r.dir, "locks.db"))
	if err != nil {
		return nil, err
	}
	defer store.Close()
	return listed(store)
}

// listed returns the locks that a store lists.
func listed(store driver.Lister) (map[string]string, error) {
	left := make(map[string]string)
	for state, err := range store.List(context.Background(), "*") {
		if err != nil {
			return nil, err
		}
		if len(state.Holders) > 0 {
			left[state.Name] = "held by " + state.Holders[0].Token
		}
	}
	return left, nil
}
