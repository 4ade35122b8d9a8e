package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfastlock/holdfast/internal/redistest"
	"github.com/holdfastlock/holdfast/torture/check"
	"github.com/holdfastlock/holdfast/torture/history"
	"github.com/holdfastlock/holdfast/torture/worker"
)

// TestMain makes this program a worker too, as main does.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == worker.Argument {
		work()
		return
	}
	goleak.VerifyTestMain(m)
}

const (
	testTTL = 300 * time.Millisecond
	ownTTL  = time.Minute
)

// eachPeer opens every peer but holdfast, two of each, on a server of their own.
func eachPeer(t *testing.T, test func(t *testing.T, server *redistest.Server, mine, other worker.Locker)) {
	for _, p := range peers {
		if p.open == nil {
			continue
		}
		t.Run(p.name, func(t *testing.T) {
			server := redistest.Start(t, redistest.Options{})
			settings := worker.Settings{Store: server.URL(), TTL: testTTL, OwnTTL: ownTTL}
			var opened []worker.Locker
			for range 2 {
				locker, err := p.open(t.Context(), settings)
				if err != nil {
					t.Fatal(err)
				}
				defer locker.Close(context.Background())
				opened = append(opened, locker)
			}
			test(t, server, opened[0], opened[1])
		})
	}
}

// request is one for a lock that is kept.
func request(wait time.Duration) worker.Request {
	return worker.Request{Name: "a", TTL: testTTL, Wait: wait, Extended: func(time.Time) {}}
}

// key returns the only key at the server, or nothing.
func key(t *testing.T, server *redistest.Server) string {
	t.Helper()
	keys, err := server.Do("KEYS", prefix+"*").AsStrSlice()
	if err != nil || len(keys) > 1 {
		t.Fatalf("keys %q, %v", keys, err)
	}
	if len(keys) == 0 {
		return ""
	}
	return keys[0]
}

func TestALockIsKeptBeyondItsTTLAndWaitedFor(t *testing.T) {
	eachPeer(t, func(t *testing.T, server *redistest.Server, mine, other worker.Locker) {
		lease, err := mine.Acquire(t.Context(), request(0))
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		for time.Since(began) < 2*testTTL {
			if _, err := other.Acquire(t.Context(), request(0)); other.Outcome(err) != history.Held {
				t.Fatalf("another's try ended with %v after %v", err, time.Since(began))
			}
		}
		granted := make(chan error, 1)
		var second worker.Lease
		go func() {
			var err error
			second, err = other.Acquire(t.Context(), request(time.Minute))
			granted <- err
		}()
		if err := lease.Release(t.Context()); err != nil {
			t.Error(err)
		}
		if err := <-granted; err != nil || key(t, server) == "" {
			t.Fatalf("the waiter was told %v, the key is %q", err, key(t, server))
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if err := second.Release(ended); err != nil || key(t, server) != "" {
			t.Errorf("released with %v under a context that has ended; left: %q", err, key(t, server))
		}
	})
}

func TestALockThatAnotherHasIsTold(t *testing.T) {
	eachPeer(t, func(t *testing.T, server *redistest.Server, mine, _ worker.Locker) {
		ask := request(0)
		ask.TTL = ownTTL // so that the deadline is far
		lease, err := mine.Acquire(t.Context(), ask)
		if err != nil {
			t.Fatal(err)
		}
		held := key(t, server)
		if err := server.Do("SET", held, "another").Error(); err != nil {
			t.Fatal(err)
		}
		_ = lease.Extend(t.Context()) // an error where this is how a loss is told
		select {
		case <-lease.Done():
		case <-time.After(20 * time.Second):
			t.Fatal("the loss was not told")
		}
		_ = lease.Release(t.Context()) // an error where the library tells
		if value, err := server.Do("GET", held).ToString(); value != "another" {
			t.Errorf("the release left %q, %v", value, err)
		}
	})
}

func TestAWaitEndsWithItsContextOrItsLimit(t *testing.T) {
	eachPeer(t, func(t *testing.T, _ *redistest.Server, mine, other worker.Locker) {
		lease, err := mine.Acquire(t.Context(), request(0))
		if err != nil {
			t.Fatal(err)
		}
		defer lease.Release(t.Context())
		if _, err := other.Acquire(t.Context(), request(testTTL)); other.Outcome(err) != history.Cancelled {
			t.Errorf("a wait with a limit ended with %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), testTTL)
		defer cancel()
		if _, err := other.Acquire(ctx, request(time.Hour)); other.Outcome(err) != history.Cancelled {
			t.Errorf("a wait under a context ended with %v", err)
		}
	})
}

func TestErrorsOfNoLibraryAreSorted(t *testing.T) {
	for err, want := range map[error]history.Outcome{
		nil: history.OK, context.Canceled: history.Cancelled, context.DeadlineExceeded: history.Cancelled,
		errors.New("connection refused"): history.Unreachable,
	} {
		if got := outcome(err); got != want {
			t.Errorf("%v: %s, want %s", err, got, want)
		}
	}
}

func TestEveryLibraryHasARowWithTenures(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "torture")
	if err := build(t.Context(), program); err != nil {
		t.Fatal(err)
	}
	var results []result
	p := plan{length: 3 * time.Second, seed: 1, faults: "none"}
	for _, each := range peers {
		document, err := torture(t.Context(), program, p, each)
		if err != nil {
			t.Fatalf("%s: %v", each.name, err)
		}
		if document.Tenures < 10 || document.Operations < 10 || document.Unguarded.Writes == 0 {
			t.Errorf("%s: %d tenures, %d operations, %d unguarded writes", each.name, document.Tenures, document.Operations, document.Unguarded.Writes)
		}
		for kind := range document.Violations {
			if each.open == nil || kind != check.Exclusion && kind != check.Progress {
				t.Errorf("%s without any fault: %d of %s", each.name, document.Violations[kind], kind)
			}
		}
		results = append(results, result{each, document})
	}
	var table bytes.Buffer
	if err := writeTable(&table, p, results); err != nil {
		t.Fatal(err)
	}
	for _, each := range peers {
		if !bytes.Contains(table.Bytes(), []byte("| "+each.name+" |")) {
			t.Errorf("%s has no row:\n%s", each.name, &table)
		}
	}
}
