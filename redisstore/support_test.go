package redisstore

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfastlock/holdfast/driver"
	"github.com/holdfastlock/holdfast/internal/redistest"
)

// patience is how long a condition that must come true may take.
const patience = 15 * time.Second

func given(t *testing.T) (*redistest.Server, *Store) {
	t.Helper()
	server := redistest.Start(t, redistest.Options{})
	return server, open(t, server.Addr())
}

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

func request(name string) driver.AcquireRequest {
	return driver.AcquireRequest{Name: name, Token: driver.NewToken("host/1"), TTL: time.Minute, Purpose: "why"}
}

func acquire(t *testing.T, store *Store, req driver.AcquireRequest) int64 {
	t.Helper()
	result, err := store.Acquire(within(t), req)
	if err != nil || !result.Granted {
		t.Fatalf("Acquire %q: granted %v, %v", req.Name, result.Granted, err)
	}
	return result.Fence
}

func extend(t *testing.T, store *Store, req driver.AcquireRequest) {
	t.Helper()
	result := store.Extend(within(t), []driver.ExtendRequest{{Name: req.Name, Token: req.Token, TTL: req.TTL}})[0]
	if result.Err != nil || result.Answer != driver.Mine {
		t.Fatalf("Extend %q: %v, %v", req.Name, result.Answer, result.Err)
	}
}

func release(t *testing.T, store *Store, req driver.AcquireRequest, want driver.Answer) {
	t.Helper()
	answer, err := store.Release(within(t), driver.ReleaseRequest{Name: req.Name, Token: req.Token})
	if err != nil || answer != want {
		t.Fatalf("Release %q: %v, %v, want %v", req.Name, answer, err, want)
	}
}

func holder(t *testing.T, store *Store, name string) driver.Holder {
	t.Helper()
	state, err := store.Inspect(within(t), name)
	if err != nil || len(state.Holders) != 1 {
		t.Fatalf("Inspect %q: %+v, %v, want one holder", name, state, err)
	}
	return state.Holders[0]
}

// server runs a command on one server.
type server interface {
	Do(args ...string) rueidis.RedisResult
}

// must ends the test if something of the test itself went wrong.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// do runs a command that must not fail, and returns what it says as a text.
func do(t *testing.T, server server, args ...string) string {
	t.Helper()
	reply, err := server.Do(args...).ToAny()
	if err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	text, _ := reply.(string)
	return text
}

// number runs a command that must answer a number.
func number(t *testing.T, server server, args ...string) int64 {
	t.Helper()
	n, err := server.Do(args...).AsInt64()
	if err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	return n
}

func wantKind(t *testing.T, err, kind error) {
	t.Helper()
	var known *driver.Error
	if !errors.Is(err, kind) || !errors.As(err, &known) {
		t.Errorf("error %v, want %v", err, kind)
	}
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not true after %v: %s", patience, what)
		}
	}
}
