// Package fencetest is the suite that every kind of resource in fence passes.
package fencetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/holdfastlock/holdfast/fence"
)

// Resources are the resources of one kind. What one contains is a list of the
// fences under which it was written. The methods are used concurrently.
type Resources struct {
	// Touch shows a fence.
	Touch func(ctx context.Context, resource, owner string, fence int64) error
	// Append shows a fence and adds it to the list, in one step. It calls between
	// after the fence was accepted and before the list is changed; an error of
	// between is one of the change.
	Append func(ctx context.Context, resource, owner string, fence int64, between func() error) error
	// List returns what a resource contains.
	List func(t *testing.T, resource string) []int64

	// Indivisible says that nothing can come between check and change, and that
	// between is not called.
	Indivisible bool
	// Remote says that a call may still take effect after its context has ended.
	Remote bool
	// RollsBack says that a fence whose change fails was not seen.
	RollsBack bool
	// Reopen ends and starts again whatever remembers; nil if it remembers only
	// in memory.
	Reopen func(t *testing.T)
}

const (
	// limit bounds a call that must come back.
	limit = 30 * time.Second
	// patience is how long is waited for what must not happen.
	patience = 200 * time.Millisecond
)

// Run runs the suite. Each part uses resources of its own names.
func Run(t *testing.T, r Resources) {
	s := suite{r}
	for name, part := range map[string]func(*testing.T){
		"a stale fence is refused with both numbers":          s.stale,
		"an equal fence of another owner is a conflict":       s.conflict,
		"one holder may write more than once":                 s.repeats,
		"a lease without fence is refused":                    s.noFence,
		"a touch shuts out the holder before":                 s.touch,
		"names and owners are compared byte by byte":          s.bytes,
		"a failed change leaves the fence as promised":        s.failedChange,
		"check and change are one step":                       s.oneStep,
		"a context ends the wait":                             s.endedWait,
		"any sequence is answered as the rule says":           s.model,
		"changes are in the order of fences under contention": s.contention,
		"what was seen is remembered over a restart":          s.restart,
	} {
		t.Run(name, part)
	}
}

type suite struct{ Resources }

func nothing() error { return nil }

func (s suite) append(t *testing.T, resource, owner string, shown int64) {
	t.Helper()
	if err := s.Append(t.Context(), resource, owner, shown, nothing); err != nil {
		t.Fatalf("fence %d of %s was refused: %v", shown, owner, err)
	}
}

func (s suite) contains(t *testing.T, resource string, want ...int64) {
	t.Helper()
	if got := s.List(t, resource); !slices.Equal(got, want) {
		t.Errorf("%s contains %v, want %v", resource, got, want)
	}
}

func isStale(t *testing.T, err error, want fence.StaleError) {
	t.Helper()
	var stale *fence.StaleError
	if !errors.As(err, &stale) || !errors.Is(err, fence.ErrStale) || errors.Is(err, fence.ErrConflict) {
		t.Fatalf("a stale fence was answered with %v", err)
	}
	if *stale != want {
		t.Errorf("the error is %+v, want %+v", *stale, want)
	}
}

func isConflict(t *testing.T, err error, want fence.ConflictError) {
	t.Helper()
	var conflict *fence.ConflictError
	if !errors.As(err, &conflict) || !errors.Is(err, fence.ErrConflict) || errors.Is(err, fence.ErrStale) {
		t.Fatalf("an equal fence was answered with %v", err)
	}
	if *conflict != want {
		t.Errorf("the error is %+v, want %+v", *conflict, want)
	}
}

func (s suite) stale(t *testing.T) {
	const name = "stale"
	s.append(t, name, "b", 42)
	want := fence.StaleError{Resource: name, Fence: 41, Newest: 42}
	isStale(t, s.Append(t.Context(), name, "a", 41, nothing), want)
	isStale(t, s.Touch(t.Context(), name, "a", 41), want)
	isStale(t, s.Touch(t.Context(), name, "b", 41), want)
	s.contains(t, name, 42)
	s.append(t, name, "b", 42)
}

func (s suite) conflict(t *testing.T) {
	const name = "conflict"
	s.append(t, name, "a", 42)
	want := fence.ConflictError{Resource: name, Fence: 42, Owner: "b", First: "a"}
	isConflict(t, s.Append(t.Context(), name, "b", 42, nothing), want)
	isConflict(t, s.Touch(t.Context(), name, "b", 42), want)
	s.contains(t, name, 42)
	s.append(t, name, "a", 42)
}

func (s suite) repeats(t *testing.T) {
	const name = "repeats"
	for range 3 {
		s.append(t, name, "a", 41)
	}
	s.contains(t, name, 41, 41, 41)
}

func (s suite) noFence(t *testing.T) {
	const name = "none"
	for _, none := range []int64{0, -1} {
		err := s.Append(t.Context(), name, "a", none, nothing)
		if !errors.Is(err, fence.ErrNoFence) {
			t.Errorf("fence %d was answered with %v", none, err)
		}
		if err := s.Touch(t.Context(), name, "a", none); !errors.Is(err, fence.ErrNoFence) {
			t.Errorf("a touch with %d was answered with %v", none, err)
		}
	}
	s.contains(t, name)
	s.append(t, name, "a", 1)
}

func (s suite) touch(t *testing.T) {
	const name = "touch"
	s.append(t, name, "a", 41)
	if err := s.Touch(t.Context(), name, "b", 42); err != nil {
		t.Fatal(err)
	}
	if err := s.Append(t.Context(), name, "a", 41, nothing); !errors.Is(err, fence.ErrStale) {
		t.Errorf("the holder before was answered with %v", err)
	}
	s.contains(t, name, 41)
}

func (s suite) bytes(t *testing.T) {
	const (
		largest = 1 << 53 // of fences that JavaScript carries unharmed
		long    = 512     // as the longest name of a lock
	)
	names := []string{"report", "Report", "report ", "rapport é", "a/b", `a'b"c`, "a%20b", strings.Repeat("x", long)}
	for i, name := range names {
		s.append(t, name, "a", largest-int64(i))
	}
	for i, name := range names {
		s.contains(t, name, largest-int64(i))
		for _, other := range []string{"A", "a ", "a é"} {
			if err := s.Touch(t.Context(), name, other, largest-int64(i)); !errors.Is(err, fence.ErrConflict) {
				t.Errorf("owner %q after a at %q: %v", other, name, err)
			}
		}
	}
}

func (s suite) failedChange(t *testing.T) {
	if s.Indivisible {
		t.Skip("nothing can come between")
	}
	const name = "failed"
	full := errors.New("disk full")
	err := s.Append(t.Context(), name, "b", 42, func() error { return full })
	if err == nil || errors.Is(err, fence.ErrStale) || errors.Is(err, fence.ErrConflict) {
		t.Errorf("the error is %v, want that of the change", err)
	}
	s.contains(t, name)
	err = s.Append(t.Context(), name, "a", 41, nothing)
	if s.RollsBack && err != nil {
		t.Errorf("fence 42 was rolled back, and 41 answered with %v", err)
	}
	if !s.RollsBack && !errors.Is(err, fence.ErrStale) {
		t.Errorf("fence 42 was seen, and 41 answered with %v", err)
	}
}

// oneStep lets a later holder come while an earlier one is between check and
// change.
func (s suite) oneStep(t *testing.T) {
	if s.Indivisible {
		t.Skip("nothing can come between")
	}
	const name = "one step"
	later := make(chan error, 1)
	err := s.Append(t.Context(), name, "a", 41, func() error {
		go func() { later <- s.Append(t.Context(), name, "b", 42, nothing) }()
		select {
		case err := <-later:
			later <- err
			return errors.New("a later holder was let in between check and change")
		case <-time.After(patience):
			return nil
		}
	})
	if err != nil {
		t.Error(err)
	}
	select {
	case err := <-later:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(limit):
		t.Fatal("the later holder waits for ever")
	}
	s.contains(t, name, 41, 42)
}

func (s suite) endedWait(t *testing.T) {
	if s.Indivisible {
		t.Skip("nobody waits")
	}
	const name = "ended wait"
	err := s.Append(t.Context(), name, "a", 41, func() error {
		ctx, cancel := context.WithTimeout(t.Context(), patience/2)
		defer cancel()
		waited := make(chan error, 1)
		go func() { waited <- s.Append(ctx, name, "b", 42, nothing) }()
		select {
		case err := <-waited:
			if err == nil {
				return errors.New("it did not wait")
			}
			return nil
		case <-time.After(limit):
			return errors.New("it waits for ever")
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if s.Remote {
		return
	}
	s.contains(t, name, 41)
	if err := s.Append(t.Context(), name, "a", 41, nothing); err != nil {
		t.Errorf("the holder was answered with %v after another gave up", err)
	}
}

func (s suite) model(t *testing.T) {
	resource := 0
	rapid.Check(t, func(rt *rapid.T) {
		resource++
		name := fmt.Sprint("model ", resource)
		var seen fence.Mark
		var list []int64
		for range rapid.IntRange(1, 10).Draw(rt, "steps") {
			shown := rapid.Int64Range(-1, 5).Draw(rt, "fence")
			owner := strconv.Itoa(rapid.IntRange(1, 2).Draw(rt, "owner"))
			show := func() error { return s.Touch(t.Context(), name, owner, shown) }
			writes := rapid.Bool().Draw(rt, "writes")
			if writes {
				show = func() error { return s.Append(t.Context(), name, owner, shown, nothing) }
			}
			right := shown > 0 && (shown > seen.Fence || shown == seen.Fence && owner == seen.Owner)
			if err := show(); right != (err == nil) {
				rt.Fatalf("fence %d of %s after %+v was answered with %v", shown, owner, seen, err)
			}
			if right {
				seen = fence.Mark{Fence: shown, Owner: owner}
			}
			if right && writes {
				list = append(list, shown)
			}
		}
		if got := s.List(t, name); !slices.Equal(got, list) {
			rt.Fatalf("it contains %v, want %v", got, list)
		}
	})
}

func (s suite) restart(t *testing.T) {
	if s.Reopen == nil {
		t.Skip("remembers in memory")
	}
	const name = "restart"
	s.append(t, name, "b", 42)
	s.Reopen(t)
	isStale(t, s.Append(t.Context(), name, "a", 41, nothing), fence.StaleError{Resource: name, Fence: 41, Newest: 42})
	s.contains(t, name, 42)
}
