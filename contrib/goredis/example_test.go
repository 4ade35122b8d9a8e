package goredis_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/holdfastlock/holdfast"
	"github.com/holdfastlock/holdfast/contrib/goredis"
	"github.com/holdfastlock/holdfast/internal/redistest"
	"github.com/holdfastlock/holdfast/redisstore"
)

// address is where the program's Redis is.
var address = "localhost:6379"

// A program locks with the client that it has.
func Example() {
	client := redis.NewClient(&redis.Options{Addr: address, ContextTimeoutEnabled: true})
	defer client.Close()

	conn, err := goredis.Conn(client)
	if err != nil {
		panic(err) // a client that can't be used, and why
	}
	store, err := redisstore.New(redisstore.Options{Conn: conn})
	if err != nil {
		panic(err)
	}
	defer store.Close() // before the client
	locker, err := holdfast.New(store, holdfast.Config{})
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	defer locker.Close(ctx)

	err = locker.Do(ctx, "report:daily", func(ctx context.Context, lease *holdfast.Lease) error {
		// ctx ends the moment the lease can't be trusted any more.
		return client.Set(ctx, "report", "written under a lock", 0).Err()
	})
	if err != nil {
		panic(err)
	}
	fmt.Println(client.Get(ctx, "report").Val())
}

func TestTheExampleRuns(t *testing.T) {
	address = redistest.Start(t, redistest.Options{}).Addr()
	Example()
}
