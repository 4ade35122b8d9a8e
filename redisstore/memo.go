package redisstore

import (
	"context"
	"errors"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfastlock/holdfast/internal/redisslot"
)

// What servers forbid is remembered for each node of a cluster: they may be of
// different versions, or have different ACL files. A Conn does not tell which node
// has a key, so the node is asked for its slots when there is something to
// remember; where nothing is forbidden nothing is asked or computed. (To remember
// each slot by itself would need no asking, but each would be found out anew.)

// lookAgain is how long it is remembered what a server does not let us do: rights
// can be changed at any time.
const lookAgain = time.Minute

// memo remembers which servers do not let us do something.
type memo struct {
	noting sync.Mutex
	noted  atomic.Pointer[map[string]lack] // by node, and never changed; nil at first
}

type lack struct {
	since  time.Time
	losses int // of connections until then: another server may be there since
}

// lacks says that it was noted, not long ago, of the server that has the key.
func (s *Store) lacks(m *memo, key string) bool {
	noted := m.noted.Load()
	if noted == nil { // mostly
		return false
	}
	found, yes := (*noted)[s.plain.layout.Load().nodeOf(key)]
	return yes && time.Since(found.since) < lookAgain && found.losses == s.connection.lossesSoFar()
}

// note remembers it. Of many who find it out together one does, and the others do
// not wait for that. Where the node does not tell its slots it is found out again.
func (s *Store) note(ctx context.Context, m *memo, key string) {
	if !m.noting.TryLock() {
		return
	}
	defer m.noting.Unlock()
	if s.lacks(m, key) { // by now
		return
	}
	found := lack{since: time.Now(), losses: s.connection.lossesSoFar()}
	node, err := s.locate(ctx, key)
	if err != nil {
		return
	}
	noted := map[string]lack{}
	if before := m.noted.Load(); before != nil {
		maps.Copy(noted, *before)
	}
	noted[node] = found
	m.noted.Store(&noted)
}

// locate asks which node has the key; "" where there is no cluster. It asks that
// node itself: another may not know yet that a slot has moved.
func (s *Store) locate(ctx context.Context, key string) (string, error) {
	if !s.connection.clustered() {
		return "", nil
	}
	read, err := s.together(ctx, key, []Command{command(1, "PTTL", key), command(0, "CLUSTER", "SLOTS")})
	if err != nil {
		return "", err
	}
	known := layoutOf(read[1])
	node := known.nodeOf(key)
	if node == "" {
		return "", errors.New("CLUSTER SLOTS: nobody has the slot")
	}
	s.plain.layout.Store(&known)
	return node, nil
}

// layout says which nodes of a cluster have which slots.
type layout []slotRange

// slotRange is the slots from first to last, which are all the node's.
type slotRange struct {
	first, last int64
	node        string // its id
}

// layoutOf reads an answer to CLUSTER SLOTS.
func layoutOf(reply Reply) (known layout) {
	for _, slots := range reply.List { // first, last, primary, replicas
		if len(slots.List) > 2 && len(slots.List[2].List) > 2 { // host, port, id
			known = append(known, slotRange{slots.List[0].Int, slots.List[1].Int, slots.List[2].List[2].Text})
		}
	}
	return known
}

// nodeOf returns the id of the node that has the key; "" if that is not known.
func (l *layout) nodeOf(key string) string {
	if l == nil {
		return ""
	}
	slot := int64(redisslot.Of(key))
	for _, slots := range *l {
		if slots.first <= slot && slot <= slots.last {
			return slots.node
		}
	}
	return ""
}
