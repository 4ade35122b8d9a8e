package drivertest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/holdfastlock/holdfast/driver"
)

// goodNames are names of every kind, and such as a store might confuse.
var goodNames = []string{
	"plain", "Plain", "plain ", " plain", "plain:", "plain/", "plain~", "a:b", "a/b", "a//b", "../b", "a.b", "a b",
	"é", "e\u0301", "日本語", "🔒", "\u00a0", "100%", "100%s", "%00", "'", `"`, `\`, "`", "a';--", "$1", "a\u2028b",
	"*", "?", "[a]", "[^a]", "a*", "a?", "{tag}", "{tag}a", "{tag}b", "a{tag}", "{}", "{}a", "{", "}", "a}b", "a{b", "{a}{b}",
	"lock:plain", "plain:~f", "-n", "--", "#", "0", "nil", "null", strings.Repeat("n", driver.MaxName),
	strings.Repeat("n", driver.MaxName-1), strings.Repeat("ü", driver.MaxName/2),
}

var badNames = []string{
	"", "~", "~f:x", "a\x00b", "a\nb", "a\tb", "a\x7fb", "a\u0085b", "a\xffb", "\xc3", strings.Repeat("n", driver.MaxName+1),
}

// acceptable returns the names that the store does not refuse.
func (t *trial) acceptable(names ...string) []string {
	t.Helper()
	return slices.DeleteFunc(names, func(name string) bool {
		_, err := t.a.Inspect(t.in(), name)
		var refused *driver.NameError
		return errors.As(err, &refused)
	})
}

// namesAreKeptApart holds all names at once, each by a token of its own.
func namesAreKeptApart(t *trial) {
	held := make(map[string]driver.AcquireRequest)
	for _, name := range goodNames {
		req := request(name)
		result, err := t.a.Acquire(t.in(), req)
		var refused *driver.NameError
		switch {
		case errors.As(err, &refused):
			t.Logf("this store refuses the name: %v", err)
			t.refusedEverywhere(name)
		case err != nil || !result.Granted:
			t.Fatalf("Acquire %q: granted %v, %v, %+v", name, result.Granted, err, result.State)
		default:
			held[name] = req
		}
	}
	for name, req := range held {
		t.heldBy(req)
		t.refuse(t.b, request(name))
		t.extend(t.b, req, 2*whole, driver.Mine)
		t.release(t.b, req, driver.Mine)
		t.free(name)
		delete(held, name)
	}
}

func badNamesAreRefused(t *trial) {
	for _, name := range badNames {
		_, err := t.a.Acquire(t.in(), request(name))
		t.nameError(err, name)
		t.refusedEverywhere(name)
	}
	if lister := t.lister(); lister != nil {
		if listed := t.list(lister, "*"); len(listed) != 0 {
			t.Errorf("a refused name was written: %v", listed)
		}
	}
}

// refusedEverywhere checks that all operations agree about a refused name.
func (t *trial) refusedEverywhere(name string) {
	t.Helper()
	_, err := t.a.Release(t.in(), driver.ReleaseRequest{Name: name, Token: "x", Tombstone: whole})
	t.nameError(err, name)
	_, err = t.a.Inspect(t.in(), name)
	t.nameError(err, name)
	results := t.a.Extend(t.in(), []driver.ExtendRequest{{Name: name, Token: "x", TTL: whole}})
	if len(results) != 1 {
		t.Fatalf("Extend of one lease gave %d results", len(results))
	}
	t.nameError(results[0].Err, name)
}

func anEndedContextDoesNothing(t *trial) {
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	late, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	t.endedContext(cancelled, context.Canceled)
	t.endedContext(late, context.DeadlineExceeded)
}

func (t *trial) endedContext(ctx context.Context, want error) {
	t.Helper()
	check := func(op string, err error) {
		t.Helper()
		if !errors.Is(err, want) {
			t.Errorf("%s under an ended context: error %v, want %v", op, err, want)
		}
	}
	held := request("ended: " + want.Error())
	result, err := t.a.Acquire(ctx, held)
	check("Acquire", err)
	if result.Granted {
		t.Error("Acquire under an ended context was granted")
	}
	t.free(held.Name)

	held.TTL = brief
	t.acquire(t.b, held)
	_, err = t.a.Release(ctx, driver.ReleaseRequest{Name: held.Name, Token: held.Token})
	check("Release", err)
	t.heldBy(held)
	_, err = t.a.Inspect(ctx, held.Name)
	check("Inspect", err)
	extend := driver.ExtendRequest{Name: held.Name, Token: held.Token, TTL: whole}
	results := t.a.Extend(ctx, []driver.ExtendRequest{extend, extend})
	if len(results) != 2 {
		t.Fatalf("Extend of two leases gave %d results", len(results))
	}
	for _, result := range results {
		check("Extend", result.Err)
	}
	if lister := t.lister(); lister != nil {
		err = nil
		for _, err = range lister.List(ctx, "*") {
		}
		check("List", err)
	}
}
