package redisfence

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"go.uber.org/goleak"

	"github.com/holdfastlock/holdfast/fence"
	"github.com/holdfastlock/holdfast/fence/internal/fencetest"
	"github.com/holdfastlock/holdfast/internal/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var push = NewScript("return redis.call('RPUSH', KEYS[1], ARGV[1])")

func connect(t *testing.T, server *redistest.Server) rueidis.Client {
	t.Helper()
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr()}, DisableCache: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

func TestConformance(t *testing.T) {
	server := redistest.Start(t, redistest.Options{AppendOnly: true})
	var current atomic.Pointer[Writer]
	current.Store(New(connect(t, server), Options{}))
	fencetest.Run(t, fencetest.Resources{
		Touch: func(ctx context.Context, resource, owner string, shown int64) error {
			return current.Load().Touch(ctx, resource, owner, shown)
		},
		Append: func(ctx context.Context, resource, owner string, shown int64, _ func() error) error {
			_, err := current.Load().Run(ctx, push, resource, owner, shown,
				[]string{resource}, []string{strconv.FormatInt(shown, 10)})
			return err
		},
		List: func(t *testing.T, resource string) []int64 {
			list, err := server.Do("LRANGE", resource, "0", "-1").AsIntSlice()
			if err != nil {
				t.Fatal(err)
			}
			return list
		},
		Indivisible: true,
		Reopen: func(*testing.T) {
			server.Restart(true)
			current.Store(New(connect(t, server), Options{}))
		},
	})
}

func TestAGuardedSetWritesOnlyUnderTheNewestFence(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	w := New(connect(t, server), Options{})
	if err := w.Set(t.Context(), "report", "b", 42, "new"); err != nil {
		t.Fatal(err)
	}
	if err := w.Set(t.Context(), "report", "a", 41, "old"); !errors.Is(err, fence.ErrStale) {
		t.Errorf("a stale write was answered with %v", err)
	}
	if got, err := server.Do("GET", "report").ToString(); got != "new" {
		t.Errorf("the report is %q (%v), want that of the newer holder", got, err)
	}
}

func TestAMarkHasATTLOnlyOnRequest(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	client := connect(t, server)
	for _, c := range []struct {
		ttl time.Duration
		min int64
		max int64
	}{{0, -1, -1}, {time.Hour, 3_000_000, 3_600_000}} {
		w := New(client, Options{Prefix: "app:", TTL: c.ttl})
		if err := w.Touch(t.Context(), "app:report", "a", 41); err != nil {
			t.Fatal(err)
		}
		left, err := server.Do("PTTL", "app:~t:{app:report}").AsInt64()
		if err != nil || left < c.min || left > c.max {
			t.Errorf("with TTL %v the mark ends in %d ms (%v)", c.ttl, left, err)
		}
	}
}

func TestAScriptHasItsOwnKeysArgumentsAndResult(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	w := New(connect(t, server), Options{})
	run := func(text string, keys, args []string) (rueidis.RedisMessage, error) {
		return w.Run(t.Context(), NewScript(text), "{a}", "me", 1, keys, args)
	}
	got, err := run("return {#KEYS .. KEYS[2], #ARGV .. ARGV[1]} -- and no more", []string{"{a}x", "{a}y"}, []string{"1", "2", "3"})
	if list, _ := got.AsStrSlice(); err != nil || !slices.Equal(list, []string{"2{a}y", "31"}) {
		t.Errorf("the script saw %v (%v)", got, err)
	}
	if got, err = run("local nothing = 1", nil, nil); err != nil || !got.IsNil() {
		t.Errorf("no result came back as %v, %v", got, err)
	}
	if _, err = run("return redis.error_reply('MINE no')", nil, nil); err == nil || err.Error() != "MINE no" {
		t.Errorf("an error came back as %v", err)
	}
	if _, err = run("return redis.call('NO SUCH')", nil, nil); err == nil {
		t.Error("a script that fails was no error")
	}
}

// A cluster of one node refuses scripts whose keys are in different slots.
func TestTheMarkIsInTheSlotOfTheResource(t *testing.T) {
	server := redistest.Start(t, redistest.Options{Args: []string{"--cluster-enabled", "yes"}})
	if err := server.Do("CLUSTER", "ADDSLOTSRANGE", "0", "16383").Error(); err != nil {
		t.Fatal(err)
	}
	awaitCluster(t, server)
	client := connect(t, server)
	for _, prefix := range []string{"", "app:", "{app}:"} {
		for _, name := range []string{"report", "a:b", "{tag}x", "x{tag}y", "{}x{y}"} {
			w := New(client, Options{Prefix: prefix})
			if err := w.Set(t.Context(), prefix+name, "a", 41, "x"); (err != nil) != (prefix != "{app}:" && name == "{}x{y}") {
				t.Errorf("prefix %q, key %q: %v", prefix, name, err)
			}
		}
	}
	w := New(client, Options{})
	if err := w.Touch(t.Context(), "a}b", "a", 41); err == nil {
		t.Error("a name that can't be wrapped was accepted")
	}
	if _, err := w.Run(t.Context(), push, "{a}", "a", 41, []string{"{b}"}, []string{"1"}); err == nil {
		t.Error("a key of another slot was accepted")
	}
}

func awaitCluster(t *testing.T, server *redistest.Server) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for server.Do("GET", "x").Error() != nil && !rueidis.IsRedisNil(server.Do("GET", "x").Error()) {
		if time.Now().After(deadline) {
			t.Fatal("the cluster does not come up")
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func TestLargeFencesAreComparedExactly(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	w := New(connect(t, server), Options{})
	const largest = 1<<63 - 1
	if err := w.Touch(t.Context(), "report", "a", largest); err != nil {
		t.Fatal(err)
	}
	var stale *fence.StaleError
	if err := w.Touch(t.Context(), "report", "a", largest-1); !errors.As(err, &stale) || stale.Newest != largest {
		t.Errorf("the second largest fence was answered with %v", err)
	}
}
