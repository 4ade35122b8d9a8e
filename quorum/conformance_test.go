package quorum

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"go.uber.org/goleak"

	"github.com/holdfastlock/holdfast/driver"
	"github.com/holdfastlock/holdfast/drivertest"
	"github.com/holdfastlock/holdfast/internal/redistest"
	"github.com/holdfastlock/holdfast/memstore"
	"github.com/holdfastlock/holdfast/redisstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patient is a NodeTimeout for tests on a busy machine.
const patient = 10 * time.Second

// In both both handles are one: a token that is acquired again by another process
// may be granted a larger fence.

func TestAQuorumInMemoryKeepsTheContract(t *testing.T) {
	drivertest.Run(t, func(t *testing.T) drivertest.Backend {
		stores := []*memstore.Store{memstore.New(), memstore.New(), memstore.New()}
		quorum := of(t, stores...)
		each := func(do func(*memstore.Store)) {
			for _, store := range stores {
				do(store)
			}
		}
		return drivertest.Backend{
			Open:    func(*testing.T) driver.Store { return quorum },
			Advance: func(d time.Duration) { each(func(s *memstore.Store) { s.Advance(d) }) },
			Wipe:    func(*testing.T) { each((*memstore.Store).Wipe) },
		}
	})
}

func TestAQuorumOfThreeServersKeepsTheContract(t *testing.T) { onServers(t, 3) }

func TestAQuorumOfFiveServersKeepsTheContract(t *testing.T) { onServers(t, 5) }

func onServers(t *testing.T, n int) {
	servers := startServers(t, n)
	drivertest.Run(t, func(t *testing.T) drivertest.Backend {
		for _, server := range servers {
			flush(t, server)
		}
		quorum := onAddresses(t, addresses(servers)...)
		return drivertest.Backend{
			Open:    func(*testing.T) driver.Store { return persistent{quorum} },
			Restart: func(t *testing.T) { restartAll(servers); quorum = onAddresses(t, addresses(servers)...) },
			Wipe: func(t *testing.T) {
				for _, server := range servers {
					flush(t, server)
				}
			},
		}
	})
}

// persistent asks again, as the locker does, if a majority comes too late for the
// suite's short TTLs on a busy machine.
type persistent struct{ *Store }

func (s persistent) Acquire(ctx context.Context, req driver.AcquireRequest) (driver.AcquireResult, error) {
	for {
		result, err := s.Store.Acquire(ctx, req)
		if ctx.Err() != nil || !errors.Is(err, driver.ErrUnreachable) {
			return result, err
		}
	}
}

func restartAll(servers []*redistest.Server) {
	for _, server := range servers {
		server.Restart(true)
	}
}

func startServers(t *testing.T, n int) []*redistest.Server {
	t.Helper()
	servers := make([]*redistest.Server, n)
	for i := range servers {
		// Written, so that an orderly restart keeps the data, but not synced: all
		// have one disk here.
		servers[i] = redistest.Start(t, redistest.Options{AppendOnly: true, Args: []string{"--appendfsync", "no"}})
	}
	return servers
}

func addresses(servers []*redistest.Server) []string {
	list := make([]string, len(servers))
	for i, server := range servers {
		list[i] = server.Addr()
	}
	return list
}

func flush(t *testing.T, server *redistest.Server) {
	t.Helper()
	if err := server.Do("FLUSHALL").Error(); err != nil {
		t.Fatal(err)
	}
}

// of returns a quorum of stores that ends with the test.
func of(t *testing.T, stores ...*memstore.Store) *Store {
	t.Helper()
	nodes := make([]driver.Store, len(stores))
	for i, store := range stores {
		nodes[i] = store
	}
	return ofNodes(t, Options{NodeTimeout: patient}, nodes...)
}

func ofNodes(t *testing.T, options Options, nodes ...driver.Store) *Store {
	t.Helper()
	quorum, err := New(nodes, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(quorum.Close)
	return quorum
}

// onAddresses returns a quorum of Redis servers that ends with the test.
func onAddresses(t *testing.T, addresses ...string) *Store {
	t.Helper()
	return onAddressesWith(t, Options{NodeTimeout: patient}, addresses...)
}

func onAddressesWith(t *testing.T, options Options, addresses ...string) *Store {
	t.Helper()
	nodes := make([]driver.Store, len(addresses))
	for i, address := range addresses {
		store, err := redisstore.New(redisstore.Options{Client: rueidis.ClientOption{InitAddress: []string{address}}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(store.Close)
		nodes[i] = store
	}
	return ofNodes(t, options, nodes...)
}
