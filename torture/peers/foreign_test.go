package main

import (
	"strings"
	"testing"

	"github.com/redis/rueidis"

	"github.com/holdfastlock/holdfast/driver"
	"github.com/holdfastlock/holdfast/internal/redistest"
	"github.com/holdfastlock/holdfast/redisstore"
	"github.com/holdfastlock/holdfast/torture/worker"
)

// What holdfast ls --foreign goes by, on what the real libraries write.
func TestALockOfEveryLibraryIsRecognisedByHoldfast(t *testing.T) {
	eachPeer(t, func(t *testing.T, server *redistest.Server, mine, _ worker.Locker) {
		store, err := redisstore.New(redisstore.Options{
			Prefix: "elsewhere:", Client: rueidis.ClientOption{InitAddress: []string{server.Addr()}},
		})
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		ask := request(0)
		ask.TTL = ownTTL // so that it is there for long
		lease, err := mine.Acquire(t.Context(), ask)
		if err != nil {
			t.Fatal(err)
		}
		var found []driver.ForeignLock
		for lock, err := range store.ListForeign(t.Context(), "*") {
			if err != nil {
				t.Fatal(err)
			}
			found = append(found, lock)
		}
		_, name, _ := strings.Cut(t.Name(), "/")
		library, _, _ := strings.Cut(name, "-")
		if len(found) != 1 || found[0].Key != key(t, server) || found[0].Library != library || found[0].Left <= 0 || found[0].Left > ownTTL {
			t.Errorf("found %+v, want a lock of %s at %q", found, library, key(t, server))
		}
		_ = lease.Release(t.Context())
	})
}
