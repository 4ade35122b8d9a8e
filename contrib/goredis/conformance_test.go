package goredis

import (
	"testing"

	"github.com/holdfastlock/holdfast/driver"
	"github.com/holdfastlock/holdfast/drivertest"
	"github.com/holdfastlock/holdfast/internal/redistest"
	"github.com/holdfastlock/holdfast/redisstore"
)

func TestAStoreOverAClientOfOneServerKeepsTheContract(t *testing.T) {
	drivertest.Run(t, func(t *testing.T) drivertest.Backend {
		server := redistest.Start(t, redistest.Options{AppendOnly: true})
		return drivertest.Backend{
			Open: func(t *testing.T) driver.Store {
				return storeOver(t, clientOf(t, server.Addr()), redisstore.Options{})
			},
			Restart: func(*testing.T) { server.Restart(true) },
			Wipe:    func(t *testing.T) { do(t, server, "FLUSHALL") },
		}
	})
}

func TestAStoreOverAClientOfAClusterKeepsTheContract(t *testing.T) {
	server := startCluster(t) // it takes seconds
	drivertest.Run(t, func(t *testing.T) drivertest.Backend {
		do(t, server, "FLUSHALL")
		return drivertest.Backend{
			Open: func(t *testing.T) driver.Store {
				return storeOver(t, clusterClientOf(t, server.Addr()), redisstore.Options{})
			},
			Wipe: func(t *testing.T) { do(t, server, "FLUSHALL") },
		}
	})
}
