package redisstore

import (
	"testing"

	"github.com/redis/rueidis"
	"go.uber.org/goleak"

	"github.com/holdfastlock/holdfast/driver"
	"github.com/holdfastlock/holdfast/drivertest"
	"github.com/holdfastlock/holdfast/internal/redistest"
)

func TestMain(m *testing.M) {
	// In a cluster the client looks at the topology again a second after a
	// connection ended, and closes one that it needs no more, or anew, after five;
	// it does not stop that when it is closed.
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*call).DelayDo.func1"),
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*clusterClient)._refresh.func2"),
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*clusterClient).redirectOrNew.func1"))
}

func TestTheStoreKeepsTheContract(t *testing.T) {
	drivertest.Run(t, func(t *testing.T) drivertest.Backend {
		server := redistest.Start(t, redistest.Options{AppendOnly: true})
		return drivertest.Backend{
			Open:    func(t *testing.T) driver.Store { return open(t, server.Addr()) },
			Restart: func(*testing.T) { server.Restart(true) },
			Wipe: func(t *testing.T) {
				if err := server.Do("FLUSHALL").Error(); err != nil {
					t.Fatal(err)
				}
			},
		}
	})
}

// open returns a store on one server that ends with the test.
func open(t *testing.T, address string) *Store {
	t.Helper()
	return openWith(t, Options{Client: rueidis.ClientOption{InitAddress: []string{address}}})
}

func openWith(t *testing.T, options Options) *Store {
	t.Helper()
	store, err := New(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	return store
}
