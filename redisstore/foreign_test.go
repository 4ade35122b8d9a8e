package redisstore

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfastlock/holdfast/driver"
	"github.com/holdfastlock/holdfast/internal/redistest"
)

// fixture is what a library leaves at the server when it has taken a lock, by
// its source. The Go libraries themselves are asked in torture/peers, redis-py
// below.
type fixture struct {
	key      string
	commands [][]string
	library  string // empty: not known
	kind     string
	holder   string
	endless  bool // without an expiry
}

const (
	aClient  = "285475da-9152-4c83-822a-67ee2f116a79"
	another  = "7a54dbd2-5a4f-4d4c-a8e0-0f2f7d8f0c11"
	aPermit  = "\x9c\x01\xf3\x7f\x80\xee\x12\x99\xfa\x00\x41\xc2\xb7\x5d\xd0\x1e"
	rueidis1 = "\x8d\x02\xff\x17\xa0\xee\x12\x99\xfa\x00\x41\xc2\xb7\x5d\xd0\x1e\x33\xc4\x95\x06\xd7\x28\xf9\x1a"
)

func fixtures() []fixture {
	at := func(ms int64) string {
		return decimal(time.Now().Add(time.Duration(ms) * time.Millisecond).UnixMilli())
	}
	set := func(key, value string) [][]string { return [][]string{{"SET", key, value, "NX", "PX", "60000"}} }
	return []fixture{
		// redislock.go: 16 bytes, base64.RawURLEncoding, then the metadata.
		{key: "my-key", commands: set("my-key", "3LbP2p_b0Kq1t8VQxFz0Hg"), library: "redislock", kind: kindLock, holder: "3LbP2p_b…"},
		{key: "jobs:lock:7", commands: set("jobs:lock:7", "3LbP2p_b0Kq1t8VQxFz0Hgworker 4"), library: "redislock", kind: kindLock, holder: "worker 4"},
		// redsync mutex.go, genValue: 16 bytes, base64.StdEncoding.
		{key: "global", commands: set("global", "yWwPjW+6m8Yx0Jxg/7vQ2A=="), library: "redsync", kind: kindLock, holder: "yWwPjW+6…"},
		// rueidislock/lock.go: keyname, and 24 random bytes as they are.
		{key: "rueidislock:0:job", commands: set("rueidislock:0:job", rueidis1), library: "rueidislock", kind: kindLock, holder: "8d02ff17…"},
		// RedissonLock.java, tryLockInnerAsync.
		{key: "myLock", commands: [][]string{{"HINCRBY", "myLock", aClient + ":52", "1"}, {"PEXPIRE", "myLock", "30000"}},
			library: "Redisson", kind: kindLock, holder: "client 285475da… thread 52"},
		// RedissonReadLock.java, with a second reader, and the keys for each.
		{key: "rw", commands: [][]string{
			{"HSET", "rw", "mode", "read", aClient + ":52", "1", another + ":9", "1"}, {"PEXPIRE", "rw", "30000"},
			{"SET", "{rw}:" + aClient + ":52:rwlock_timeout:1", "1", "PX", "30000"},
		}, library: "Redisson", kind: kindRead, holder: " and 1 more"},
		// RedissonWriteLock.java.
		{key: "{a}rw", commands: [][]string{{"HSET", "{a}rw", "mode", "write", aClient + ":52:write", "1"}, {"PEXPIRE", "{a}rw", "30000"}},
			library: "Redisson", kind: kindWrite, holder: "client 285475da… thread 52"},
		// RedissonPermitExpirableSemaphore.java: permits left, and who has one until when.
		{key: "{sem}:timeout", commands: [][]string{{"SET", "sem", "3"}, {"ZADD", "{sem}:timeout", at(30000), aPermit, at(1000), "0123456789abcdef0123456789abcdef"}},
			library: "Redisson", kind: kindSemaphore, holder: "2 permits"},
		{key: "{sem2}:timeout", commands: [][]string{{"ZADD", "{sem2}:timeout", "922337203685477", aPermit}},
			library: "Redisson", kind: kindSemaphore, holder: "1 permits", endless: true},
		// InternalRedisLockProvider.java, buildKey and buildValue; before 5.0 without the UUID.
		{key: "job-lock:prod:report", commands: set("job-lock:prod:report", "ADDED:2026-11-30T00:40:20.123Z@app-1:"+aClient), library: "ShedLock", kind: kindLock, holder: "app-1"},
		{key: "app:report", commands: set("app:report", "ADDED:2019-11-30T00:40:20.123Z@app-1.example.org"), library: "ShedLock", kind: kindLock, holder: "app-1.example.org"},
		// RedLock.cs, LockId; the default RedisKeyFormat.
		{key: "redlock:thing", commands: set("redlock:thing", aClient), library: "RedLock.net", kind: kindLock, holder: "285475da…"},
		// RedisLockRegistry.java: registryKey:path, and the client's id.
		{key: "my-locks:path", commands: set("my-locks:path", aClient), library: "Spring Integration", kind: kindLock, holder: "285475da…"},
		// node-redlock index.ts, _random.
		{key: "locks:account:322456", commands: set("locks:account:322456", "0d8c4e8b9a7f6e5d4c3b2a190817263f"), library: "node-redlock", kind: kindLock, holder: "0d8c4e8b…"},
		// Laravel's Cache/Lock.php: Str::random(), 16 letters; without seconds it is SETNX.
		{key: "laravel-cache-framework/schedule-da39a3ee", commands: set("laravel-cache-framework/schedule-da39a3ee", "Zk3tYq0pLm9XwB2c"), library: "Laravel", kind: kindLock, holder: "Zk3tYq0p…"},
		{key: "app-cache-invoice-lock", commands: [][]string{{"SETNX", "app-cache-invoice-lock", "Zk3tYq0pLm9XwB2c"}}, library: "Laravel", kind: kindLock, holder: "Zk3tYq0p…", endless: true},
		// What people write themselves.
		{key: "lock:report", commands: [][]string{{"SETNX", "lock:report", "1"}}, kind: kindLock, holder: "1", endless: true},
		{key: "shop_mutex", commands: [][]string{{"SETNX", "shop_mutex", "worker-1.example.org"}}, kind: kindLock, holder: "worker-1…", endless: true},
		{key: "night-lock", commands: set("night-lock", "nightlybatchhost"), kind: kindLock, holder: "nightlyb…"},
		{key: "importJobLock", commands: set("importJobLock", "locked"), kind: kindLock, holder: "locked"},
		// Holdfast's, of this store and of one with another prefix.
		{key: "lock:ours", commands: set("lock:ours", driver.NewToken("host/1")), library: "holdfast", kind: kindLock, holder: "host/1"},
		{key: "app:ours", commands: set("app:ours", driver.NewToken("host/2")), library: "holdfast", kind: kindLock, holder: "host/2"},
	}
}

// noLocks are keys that must not be taken for locks.
func noLocks() [][]string {
	return [][]string{
		// Beside the locks of Redisson and of holdfast.
		{"RPUSH", "redisson_lock_queue:{myLock}", aClient + ":53"},
		{"ZADD", "redisson_lock_timeout:{myLock}", "1", aClient + ":53"},
		{"SET", "redisson_lock_token:{myLock}", "7"},
		{"SET", "redisson_unlock_latch:{myLock}:9f", "1", "PX", "30000"},
		{"HSET", "lock:~f:{lock:ours}", "fence", "1"},
		{"SET", "lock:~x:other", "x"},
		// A cache.
		{"SET", "session:1", aClient, "PX", "60000"},
		{"SET", "etag:1", "0d8c4e8b9a7f6e5d4c3b2a190817263f", "PX", "60000"},
		{"SET", "slug:1", "a-text-of-just-22-letg", "PX", "60000"},
		{"SET", "slug:2", "twentytwolettersinarow", "PX", "60000"},
		{"SET", "slug:3", "22lettersbutnocapitalg", "PX", "60000"},
		{"SET", "code:1", "Zk3tYq0pLm9XwB2c", "PX", "60000"},
		{"SET", "user:id", "3LbP2p_b0Kq1t8VQxFz0Hg"}, // redislock always sets an expiry
		{"SET", "clock:1", "1"}, {"SET", "blocks", "1"}, {"SET", "unlocked", "1"}, {"SET", "release", "1"},
		{"SET", "page-lock", strings.Repeat("x", 5000)},
		{"SET", "counter", "17"},
		{"SET", "flags:0:x", "\xff\x00"},
		{"HSET", "user:7", "name", "x", "mode", "read"},
		{"HSET", "by-client", aClient + ":52", "1", "name", "x"},
		{"ZADD", "scores:timeout", "1", "player"},
		{"RPUSH", "a-lock-list", "x"}, {"SADD", "a-lock-set", "x"}, {"XADD", "a-lock-stream", "*", "a", "b"},
	}
}

// place writes the fixtures and what is beside them.
func place(t *testing.T, server *redistest.Server) map[string]fixture {
	t.Helper()
	byKey := make(map[string]fixture)
	for _, f := range fixtures() {
		byKey[f.key] = f
		for _, command := range f.commands {
			do(t, server, command...)
		}
	}
	for _, command := range noLocks() {
		do(t, server, command...)
	}
	return byKey
}

// foreign returns the locks that match, by key.
func foreign(t *testing.T, store *Store, pattern string) map[string]driver.ForeignLock {
	t.Helper()
	found := make(map[string]driver.ForeignLock)
	for lock, err := range store.ListForeign(within(t), pattern) {
		if err != nil {
			t.Fatalf("ListForeign %q: %v", pattern, err)
		}
		if _, again := found[lock.Key]; again {
			t.Errorf("%q is listed twice", lock.Key)
		}
		found[lock.Key] = lock
	}
	return found
}

func TestTheLocksOfOtherLibrariesAreRecognised(t *testing.T) {
	server, store := given(t)
	want := place(t, server)
	found := foreign(t, store, "*")
	for key, f := range want {
		lock, is := found[key]
		if !is {
			t.Errorf("%q of %q is not listed", key, f.library)
			continue
		}
		if lock.Library != f.library || lock.Kind != f.kind || !strings.HasSuffix(lock.Holder, f.holder) || (lock.Left < 0) != f.endless || lock.Left > time.Minute || lock.Basis == "" {
			t.Errorf("%+v, want %+v", lock, f)
		}
		delete(found, key)
	}
	for key, lock := range found {
		t.Errorf("%q was taken for a lock: %+v", key, lock)
	}
}

func TestAnExactKeyOrNameIsLookedUpWithoutAScan(t *testing.T) {
	server, store := given(t)
	place(t, server)
	for asked, want := range map[string][]string{
		"my-key": {"my-key"}, "lock:report": {"lock:report"}, "report": {"lock:report"},
		"counter": {"counter"}, // named, so taken for one
		"user:7":  nil, "nothing": nil,
	} {
		counts := sent(t, server, func() {
			if got := slices.Collect(maps.Keys(foreign(t, store, asked))); !slices.Equal(got, want) {
				t.Errorf("%q gave %q, want %q", asked, got, want)
			}
		})
		if counts["scan"] != 0 || counts["keys"] != 0 || counts["type"] != 2 {
			t.Errorf("%q: %v, want no SCAN", asked, counts)
		}
	}
}

func TestAPatternSaysWhereLocksAre(t *testing.T) {
	server, store := given(t)
	place(t, server)
	do(t, server, "SET", "leaders:1", aClient, "PX", "60000")
	do(t, server, "SET", "leaders:2", "a value like any other", "PX", "60000")
	if _, found := foreign(t, store, "*")["leaders:1"]; found {
		t.Error("a UUID was taken for a token whatever its key")
	}
	found := foreign(t, store, "leaders:?")
	if len(found) != 1 || found["leaders:1"].Library != "Spring Integration" {
		t.Errorf("found %v, want leaders:1 alone", found)
	}
	if _, found := foreign(t, store, "*eaders*")["leaders:1"]; found {
		t.Error("a pattern that begins with any text was taken for a choice")
	}
	if found := foreign(t, store, "job-lock:*"); len(found) != 1 {
		t.Errorf("found %v, want the one key", found)
	}
}

func TestNoWholeTokenIsShown(t *testing.T) {
	server, store := given(t)
	place(t, server)
	python := startRedisPy(t, server)
	python.want("yes", "acquire py 60")
	for key, lock := range foreign(t, store, "*") {
		var secrets []string
		switch kind := do(t, server, "TYPE", key); kind {
		case "string":
			secrets = []string{do(t, server, "GET", key)}
		case "hash":
			secrets, _ = server.Do("HKEYS", key).AsStrSlice()
		}
		for _, secret := range secrets {
			shown := fmt.Sprintf("%+v", lock)
			if len(secret) > 8 && secret != "mode" && (strings.Contains(shown, secret) || strings.Contains(shown, hex.EncodeToString([]byte(secret)))) {
				t.Errorf("%q is shown with its token %q", key, secret)
			}
		}
	}
}

func TestRedisPyIsRecognised(t *testing.T) {
	server, store := given(t)
	python := startRedisPy(t, server)
	python.want("yes", "acquire py 60")
	if lock := foreign(t, store, "*")["py"]; lock.Library != "redis-py" || lock.Left <= 0 {
		t.Errorf("%+v, want a lock of redis-py", lock)
	}
	python.want("yes", "acquire endless 0") // no timeout
	if lock := foreign(t, store, "*")["endless"]; lock.Library != "redis-py" || lock.Left >= 0 {
		t.Errorf("%+v, want one without an expiry", lock)
	}
}

func TestRandomValuesAreHardlyTakenForLocks(t *testing.T) {
	taken := 0
	for range 100_000 {
		var b [16]byte
		rand.Read(b[:])
		if _, is := recognise(specimen{key: "md5:1", value: hex.EncodeToString(b[:])}); is {
			taken++
		}
	}
	if taken > 10 { // 0.4 to be expected
		t.Errorf("%d of 100,000 random texts of 32 digits were taken for locks", taken)
	}
}

func TestAListingOfOthersChangesNothingAndReadsLittle(t *testing.T) {
	server, store := given(t)
	place(t, server)
	const huge = 1 << 20
	do(t, server, "SET", "huge", strings.Repeat("x", huge))
	do(t, server, "HSET", "huge hash", "field", strings.Repeat("x", huge))
	before := sentBytes(t, server)
	counts := sent(t, server, func() { foreign(t, store, "*") })
	if bytes := sentBytes(t, server) - before; bytes > huge/2 {
		t.Errorf("%d bytes were read", bytes)
	}
	for _, reading := range []string{"scan", "type", "getrange", "hrandfield", "zrange", "pttl", "hlen", "zcard", "zscore"} {
		delete(counts, reading)
	}
	for _, setup := range []string{"info", "hello", "client", "client|setinfo", "client|tracking", "ping", "command", "cluster|slots", "cluster|shards"} {
		delete(counts, setup)
	}
	if len(counts) != 0 {
		t.Errorf("commands beside those that are documented: %v", counts)
	}
}

// sentBytes is how much the server has sent since it started.
func sentBytes(t *testing.T, server *redistest.Server) (n int) {
	t.Helper()
	_, rest, _ := strings.Cut(do(t, server, "INFO", "stats"), "total_net_output_bytes:")
	if _, err := fmt.Sscan(rest, &n); err != nil {
		t.Fatal(err)
	}
	return n
}

// repeating is a client that names its server twice, as a cluster names
// primaries and their replicas.
type repeating struct{ Conn }

func (r repeating) Nodes(context.Context) ([]Conn, error) { return []Conn{r, r}, nil }

func TestAKeyThatIsSeenTwiceIsListedOnce(t *testing.T) {
	server, _ := given(t)
	place(t, server)
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr()}})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	store := openWith(t, Options{Conn: repeating{Rueidis(client)}})
	if found := foreign(t, store, "*"); len(found) != len(fixtures()) { // which fails if one comes again
		t.Errorf("%d locks found, want %d", len(found), len(fixtures()))
	}
}

// readRights are those of docs/stores.md.
var readRights = []string{"%R~*", "-@all", "+scan", "+type", "+getrange", "+hrandfield", "+hlen", "+zrange", "+zcard", "+zscore", "+pttl", "+dbsize", "+ping", "+info"}

func TestTheRightsForAListingOfOthersSuffice(t *testing.T) {
	server, _ := given(t)
	place(t, server)
	store := asUser(t, server, "reader", readRights...)
	var found, keys int64
	ctx := driver.WithProgress(within(t), func(_, of int64) { keys = of })
	for lock, err := range store.ListForeign(ctx, "*") {
		if err != nil {
			t.Fatalf("after %d locks, at %+v: %v", found, lock, err)
		}
		found++
	}
	if found != int64(len(fixtures())) || keys != number(t, server, "DBSIZE") {
		t.Errorf("%d locks among %d keys, want %d", found, keys, len(fixtures()))
	}
}

func TestAListingOfOthersThatIsRefusedSaysWhatItNeeds(t *testing.T) {
	server, _ := given(t)
	place(t, server)
	store := asUser(t, server, "limited", "~lock:*", "&lock:*", "+@all")
	for _, err := range store.ListForeign(within(t), "*") {
		wantKind(t, err, driver.ErrRefused)
		if err == nil || !strings.Contains(err.Error(), "+getrange") {
			t.Errorf("error %v, want the rights", err)
		}
	}
	if found := foreign(t, store, "lock:*"); len(found) != 2 {
		t.Errorf("found %v within its own keys, want two", found)
	}
}

func TestProgressIsToldOfDBSIZE(t *testing.T) {
	server, store := given(t)
	const keys = 3000
	number(t, server, "EVAL", "for i = 1, "+decimal(keys)+" do redis.call('SET', 'lock:' .. i, i) end return 1", "0")
	var looked, of int64
	times := 0
	ctx := driver.WithProgress(within(t), func(l, o int64) {
		if l < looked {
			t.Errorf("%d keys looked at after %d", l, looked)
		}
		looked, of, times = l, o, times+1
	})
	listings := map[string]func() error{
		"List": func() error {
			for _, err := range store.List(ctx, "*") {
				if err != nil {
					return err
				}
			}
			return nil
		},
		"ListForeign": func() error {
			for _, err := range store.ListForeign(ctx, "*") {
				if err != nil {
					return err
				}
			}
			return nil
		},
	}
	for name, list := range listings {
		looked, of, times = 0, 0, 0
		if err := list(); err != nil {
			t.Error(err)
		}
		if of != keys || looked != keys || times < keys/scanCount {
			t.Errorf("%s: told %d times, at last %d of %d keys, want %d", name, times, looked, of, keys)
		}
	}
}

func TestAListingEndsWithItsCallerOrItsContext(t *testing.T) {
	server, store := given(t)
	place(t, server)
	do(t, server, "SET", "report", "x") // and lock:report
	for _, pattern := range []string{"*", "report"} {
		for range store.ListForeign(within(t), pattern) {
			break
		}
	}
	server.Kill()
	var failed error
	for _, err := range store.ListForeign(within(t), "*") {
		failed = errors.Join(failed, err)
	}
	wantKind(t, failed, driver.ErrUnreachable)
}

func TestTheWholeClusterIsListed(t *testing.T) {
	server, store := cluster(t)
	want := place(t, server)
	if found := foreign(t, store, "*"); len(found) != len(want) {
		t.Errorf("%d locks found, want %d", len(found), len(want))
	}
}
