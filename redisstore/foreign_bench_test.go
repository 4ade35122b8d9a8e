package redisstore

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfastlock/holdfast/internal/redistest"
)

// manyKeys is a million keys as a cache has them, four in five of them strings, and
// a hundred locks.
const manyKeys = `
for i = ARGV[1], ARGV[2] do
  if i % 10000 == 0 then redis.call('SET', 'lock:' .. i, i, 'PX', 3600000)
  elseif i % 5 == 0 then redis.call('HSET', 'user:' .. i, 'name', i, 'mail', i .. '@example.org')
  else redis.call('SET', 'session:' .. i, 'a value of no special form ' .. i) end
end
return 1`

// BenchmarkAMillionKeysAreListed also tells how long the PINGs of another client
// took meanwhile, and before.
func BenchmarkAMillionKeysAreListed(b *testing.B) {
	server := redistest.Start(b, redistest.Options{})
	const keys, part = 1_000_000, 10_000
	for from := 0; from < keys; from += part {
		if err := server.Do("EVAL", manyKeys, "0", fmt.Sprint(from+1), fmt.Sprint(from+part)).Error(); err != nil {
			b.Fatal(err)
		}
	}
	store, err := New(Options{Client: rueidis.ClientOption{InitAddress: []string{server.Addr()}}})
	if err != nil {
		b.Fatal(err)
	}
	defer store.Close()
	locks := map[string]func(context.Context) (int, error){
		"List":        func(ctx context.Context) (int, error) { return countOf(store.List(ctx, "*")) },
		"ListForeign": func(ctx context.Context) (int, error) { return countOf(store.ListForeign(ctx, "*")) },
		"nothing":     func(context.Context) (int, error) { time.Sleep(2 * time.Second); return 100, nil },
	}
	for _, name := range []string{"nothing", "List", "ListForeign"} {
		b.Run(name, func(b *testing.B) {
			stop := pings(b, server)
			for b.Loop() {
				if n, err := locks[name](b.Context()); err != nil || n != 100 {
					b.Fatalf("%d locks, %v", n, err)
				}
			}
			took := stop()
			for metric, share := range map[string]float64{"ping-p50-µs": 0.5, "ping-p99-µs": 0.99, "ping-max-µs": 1} {
				b.ReportMetric(float64(took[int(share*float64(len(took)-1))].Microseconds()), metric)
			}
		})
	}
}

func countOf[T any](listed func(func(T, error) bool)) (n int, failed error) {
	for _, err := range listed {
		if err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// pings sends a PING each millisecond, and its stop returns how long they took, the
// shortest first.
func pings(b *testing.B, server *redistest.Server) (stop func() []time.Duration) {
	b.Helper()
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr()}, DisableCache: true})
	if err != nil {
		b.Fatal(err)
	}
	end, ended := make(chan struct{}), make(chan []time.Duration)
	go func() {
		var took []time.Duration
		for {
			select {
			case <-end:
				ended <- took
				return
			case <-time.After(time.Millisecond):
			}
			began := time.Now()
			client.Do(context.Background(), client.B().Ping().Build())
			took = append(took, time.Since(began))
		}
	}()
	return func() []time.Duration {
		close(end)
		took := <-ended
		client.Close()
		slices.Sort(took)
		return took
	}
}
