package main

import (
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfastlock/holdfast/driver"
	"github.com/holdfastlock/holdfast/internal/redistest"
	"github.com/holdfastlock/holdfast/torture/history"
	"github.com/holdfastlock/holdfast/torture/nemesis"
)

// serve starts the servers of a store as a run does.
func serve(t *testing.T, store string) *run {
	t.Helper()
	redistest.Binary(t)
	o := options{store: store, ttl: time.Second, workers: 1, names: allNames}
	r := &run{options: o, dir: t.TempDir()}
	r.backend = newBackend(o, r.dir, r.add)
	t.Cleanup(r.close)
	if err := r.backend.start(); err != nil {
		t.Fatal(err)
	}
	return r
}

// client asks the primary as worker 1 does.
func client(t *testing.T, r *run, args ...string) rueidis.RedisResult {
	t.Helper()
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{r.backend.proxies(1)[0].Addr()}, ForceSingleClient: true, DisableCache: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	return client.Do(t.Context(), client.B().Arbitrary(args...).Build())
}

// begin begins a fault and returns what heals it.
func begin(t *testing.T, r *run, kind nemesis.Kind, size float64) (heal func()) {
	t.Helper()
	f := nemesis.Fault{Kind: kind, Size: size, For: time.Second}
	_, end, err := r.actions()[kind.Name](f)
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := end(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAReplicaThatLaggedHasNotHeardOfTheLatest(t *testing.T) {
	r := serve(t, "redis")
	s := r.backend.(*servers)
	for _, key := range []string{"there", "back"} { // of its own each time: what was a primary may have another's yet
		if err := client(t, r, "SET", key, "1").Error(); err != nil {
			t.Fatal(err)
		}
		for replicated := int64(0); replicated == 0; time.Sleep(syncPoll) {
			replicated, _ = s.replica.Do("EXISTS", key).AsInt64()
		}
		old := s.primary
		heal := begin(t, r, nemesis.FailoverBlind, 0)
		if err := client(t, r, "SET", "late", "1").Error(); err != nil {
			t.Fatal(err)
		}
		heal()
		if s.primary == old {
			t.Error("the primary is the same")
		}
		early, late := client(t, r, "DEL", key), client(t, r, "DEL", "late")
		if n, err := early.AsInt64(); n != 1 || err != nil {
			t.Errorf("what was replicated: %d, %v", n, err)
		}
		if n, err := late.AsInt64(); n != 0 || err != nil {
			t.Errorf("what was not replicated: %d, %v", n, err)
		}
	}
}

func TestServersKeepOrLoseTheirDataAsTheFaultHasIt(t *testing.T) {
	r := serve(t, "redis")
	for _, c := range []struct {
		kind nemesis.Kind
		kept bool
	}{
		{nemesis.Restart, true},
		{nemesis.ServerKill, true},
		{nemesis.ServerStop, true},
		{nemesis.FullMemory, true},
		{nemesis.TinyBuffers, true},
		{nemesis.ClockBack, true},
		{nemesis.RestartEmpty, false},
		{nemesis.Eviction, false},
	} {
		if err := client(t, r, "SET", "k", "v").Error(); err != nil {
			t.Fatal(err)
		}
		heal := begin(t, r, c.kind, 0.5)
		if c.kind.Name == nemesis.Eviction.Name {
			_ = client(t, r, "SET", "other", "v").Error() // what makes it evict
		}
		heal()
		if n, err := client(t, r, "DEL", "k").AsInt64(); (n == 1) != c.kept || err != nil {
			t.Errorf("%s: %d keys of 1, %v", c.kind.Name, n, err)
		}
	}
}

func TestWithFullMemoryNothingIsWritten(t *testing.T) {
	r := serve(t, "redis")
	heal := begin(t, r, nemesis.FullMemory, 0)
	if err := client(t, r, "SET", "k", "v").Error(); err == nil {
		t.Error("SET succeeds")
	}
	heal()
	if err := client(t, r, "SET", "k", "v").Error(); err != nil {
		t.Error(err)
	}
}

func TestALockThatIsLeftIsFoundAndNothingElse(t *testing.T) {
	r := serve(t, "redis")
	r.options.ttl = 100 * time.Millisecond
	r.add(history.Event{Kind: history.Fault, Fault: nemesis.Kill.Name, Name: "w2.1"})
	for _, key := range []string{"lock:left", "lock:~f:{lock:left}", "lock:own/w2.1/3", "other"} {
		if err := client(t, r, "SET", key, "token").Error(); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.survey(); err != nil {
		t.Fatal(err)
	}
	if left := r.history()[1:]; len(left) != 1 || left[0].Name != "left" {
		t.Errorf("found %+v", left)
	}
}

func TestAPlaceThatIsLeftInAQueueIsFoundUnlessItsWorkerWasKilled(t *testing.T) {
	r := serve(t, "redis")
	r.options.ttl = 100 * time.Millisecond
	r.add(history.Event{Kind: history.Fault, Fault: nemesis.Kill.Name, Name: "w2.1"})
	for queue, owner := range map[string]string{"lock:~q:{lock:a}": "w1.1", "lock:~q:{lock:b}": "w2.1"} {
		if err := client(t, r, "ZADD", queue, "1", "lock:~i:X\n"+driver.NewToken(owner)).Error(); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.survey(); err != nil {
		t.Fatal(err)
	}
	if left := r.history()[1:]; len(left) != 1 || left[0].Name != "lock:~q:{lock:a}" {
		t.Errorf("found %+v", left)
	}
}

func TestALockThatEndsInTimeIsNotLeft(t *testing.T) {
	r := serve(t, "redis")
	if err := client(t, r, "SET", "lock:a", "token", "PX", "500").Error(); err != nil {
		t.Fatal(err)
	}
	if err := r.survey(); err != nil {
		t.Fatal(err)
	}
	if left := r.history(); len(left) != 0 {
		t.Errorf("found %+v", left)
	}
}
