package pgstore

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/holdfastlock/holdfast/driver"
	"github.com/holdfastlock/holdfast/drivertest"
	"github.com/holdfastlock/holdfast/internal/pgtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(pgtest.Main{M: m}) }

func TestTheStoreKeepsTheContract(t *testing.T) {
	server := pgtest.Start(t, pgtest.Options{})
	database := newDatabase(t, server)
	drivertest.Run(t, func(t *testing.T) drivertest.Backend {
		wipe(server, database)
		return drivertest.Backend{
			Open:    func(t *testing.T) driver.Store { return mustOpen(t, server.URL(database)) },
			Restart: func(*testing.T) { server.Restart() },
			Wipe:    func(*testing.T) { wipe(server, database) },
		}
	})
}

func TestTheStoreKeepsTheContractWithPreparedStatements(t *testing.T) {
	server := pgtest.Shared(t)
	database := newDatabase(t, server)
	drivertest.Run(t, func(t *testing.T) drivertest.Backend {
		wipe(server, database)
		return drivertest.Backend{
			Open: func(t *testing.T) driver.Store {
				pool, err := pgxpool.New(t.Context(), server.URL(database))
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(pool.Close)
				store, err := New(pool, Config{})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(store.Close)
				return store
			},
		}
	})
}

func TestTheStoreKeepsTheContractThroughAPooler(t *testing.T) {
	server := pgtest.Shared(t)
	pooler := pgtest.StartPooler(t, server)
	database := newDatabase(t, server)
	drivertest.Run(t, func(t *testing.T) drivertest.Backend {
		wipe(server, database)
		return drivertest.Backend{
			Open: func(t *testing.T) driver.Store {
				return mustOpenWith(t, pooler.URL(database), Config{ListenURL: server.URL(database)})
			},
		}
	})
}

// The server's clock is eleven years behind ours, and only moves on in leaps: if
// it were compared with ours anywhere, no lease would last, or none would end.
func TestOnlyTheServersClockCounts(t *testing.T) {
	server := pgtest.Shared(t)
	database := newDatabase(t, server)
	server.Exec(database, movedClock)
	drivertest.Run(t, func(t *testing.T) drivertest.Backend {
		wipe(server, database)
		return drivertest.Backend{
			Open: func(t *testing.T) driver.Store {
				return mustOpen(t, server.URL(database)+"&search_path=public,pg_catalog")
			},
			Advance: func(d time.Duration) { moveClock(server, database, d) },
		}
	})
}
