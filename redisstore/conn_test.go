package redisstore

import (
	"testing"

	"github.com/redis/rueidis"

	"github.com/holdfastlock/holdfast/driver"
	"github.com/holdfastlock/holdfast/drivertest"
	"github.com/holdfastlock/holdfast/internal/redistest"
)

// borrowing returns a store over a client of the caller's, as users have it.
func borrowing(t *testing.T, address string) *Store {
	t.Helper()
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{address}, DisableRetry: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return openWith(t, Options{Conn: Rueidis(client)})
}

func TestAStoreOverAClientThatIsGivenKeepsTheContract(t *testing.T) {
	drivertest.Run(t, func(t *testing.T) drivertest.Backend {
		server := redistest.Start(t, redistest.Options{AppendOnly: true})
		return drivertest.Backend{
			Open:    func(t *testing.T) driver.Store { return borrowing(t, server.Addr()) },
			Restart: func(*testing.T) { server.Restart(true) },
			Wipe:    func(t *testing.T) { do(t, server, "FLUSHALL") },
		}
	})
}

func TestAClientThatIsGivenStaysTheCallers(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr()}})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	store := openWith(t, Options{Conn: Rueidis(client)})
	acquire(t, store, request("x"))
	store.Close()
	if err := client.Do(within(t), client.B().Ping().Build()).Error(); err != nil {
		t.Errorf("after the store's Close: %v", err)
	}
}

func TestOneClientIsGivenNotTwo(t *testing.T) {
	_, err := New(Options{Conn: rueidisConn{}, Client: rueidis.ClientOption{InitAddress: []string{"127.0.0.1:1"}}})
	wantKind(t, err, driver.ErrMisconfigured)
}
