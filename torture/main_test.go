package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfastlock/holdfast"
	"github.com/holdfastlock/holdfast/torture/check"
	"github.com/holdfastlock/holdfast/torture/history"
	"github.com/holdfastlock/holdfast/torture/nemesis"
	"github.com/holdfastlock/holdfast/torture/report"
	"github.com/holdfastlock/holdfast/torture/worker"
)

// built is where the workers of all tests are built, once.
var built string

func TestMain(m *testing.M) {
	flag.Parse()
	var err error
	if built, err = os.MkdirTemp("", "torture-test-"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		os.RemoveAll(built)
		os.Exit(code)
	}))
}

// raceWorker builds the worker with the race detector.
var raceWorker = sync.OnceValues(func() (string, error) { return buildWorker(built, "-race") })

// testOptions are those of a run whose workers have the race detector.
func testOptions(t *testing.T) options {
	t.Helper()
	path, err := raceWorker()
	if err != nil {
		t.Fatal(err)
	}
	return options{
		length: 15 * time.Second, seed: 1, store: "redis", kinds: nemesis.Kinds, worker: path,
		workers: 4, clients: 4, ttl: time.Second, names: allNames, log: t.Logf,
	}
}

// find runs and checks, and sees that no process is left behind.
func find(t *testing.T, o options) check.Report {
	t.Helper()
	result, err := torture(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if err := result.idle(o.workers); err != nil {
		t.Error(err)
	}
	noChildren(t)
	found := check.Check(result.events, o.rules())
	for _, v := range found.Violations {
		var text bytes.Buffer
		if err := report.NewTimeline(result.events, v).WriteText(&text); err != nil {
			t.Error(err)
		}
		t.Errorf("%s of %s: %s\n%s", v.Kind, v.Name, v.Text, &text)
	}
	return found
}

func noChildren(t *testing.T) {
	t.Helper()
	if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); !errors.Is(err, syscall.ECHILD) {
		t.Errorf("child processes are left: wait4 says %d, %v", pid, err)
	}
}

func TestHoldfastSurvivesEveryKindOfFault(t *testing.T) {
	found := find(t, testOptions(t))
	if found.Operations < 1000 || len(found.Faults) < 12 {
		t.Errorf("%d operations under %d kinds of faults", found.Operations, len(found.Faults))
	}
}

func TestWithoutTheFenceAPauseLosesUpdates(t *testing.T) {
	o := testOptions(t)
	o.kinds = []nemesis.Kind{nemesis.Stop}
	o.names, o.readersStop = worker.Names{Registers: allNames.Registers}, true
	for range 4 { // which client looks at its lease after the pause is chance
		found := find(t, o)
		if found.Guarded.Lost > 0 {
			t.Fatalf("lost with the fence: %+v", found.Guarded)
		}
		if found.Guarded.Refused > 0 && found.Unguarded.Lost > 0 {
			return
		}
		t.Logf("with the fence %+v, without it %+v", found.Guarded, found.Unguarded)
	}
	t.Error("no update was lost without the fence: the pauses do no harm, and prove nothing")
}

// say runs the command and returns its exit code and what it wrote.
func say(t *testing.T, ctx context.Context, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, notes bytes.Buffer
	code = command(ctx, args, &out, &notes)
	noChildren(t)
	return code, out.String(), notes.String()
}

// script makes a worker of a shell script.
func script(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "worker")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestJSONIsTheOnlyThingOnStandardOutput(t *testing.T) {
	path, err := raceWorker()
	if err != nil {
		t.Fatal(err)
	}
	code, out, notes := say(t, t.Context(), "-for", "7s", "-store", "local", "-seed", "5", "-json", "-worker", path,
		"-workers", "2", "-clients", "2") // SQLite is slow under the race detector
	var document struct {
		Operations         int
		Faults, Violations map[string]int
		Seed               uint64
	}
	if err := json.Unmarshal([]byte(out), &document); err != nil {
		t.Fatalf("%v\n%s", err, notes)
	}
	if code != 0 || document.Operations == 0 || document.Faults == nil || document.Violations == nil || document.Seed != 5 {
		t.Errorf("exit code %d, %+v\n%s", code, document, notes)
	}
	if !strings.Contains(notes, "SIG") {
		t.Errorf("no fault was told of:\n%s", notes)
	}
}

func TestAViolationExitsWith1AndIsDrawn(t *testing.T) {
	at := func(s float64) int64 { return history.Now() + int64(s*float64(time.Second)) }
	var lines strings.Builder
	events := history.NewWriter(&lines)
	for i, process := range []string{"w1.1", "w2.1"} {
		for _, e := range []history.Event{
			{At: at(1), Kind: history.Call},
			{At: at(2), Kind: history.Return, Outcome: history.OK, Fence: int64(i + 1), Deadline: at(3)},
		} {
			e.Process, e.Client, e.Op, e.Do, e.Name = process, 1, 1, history.Acquire, "a"
			if err := events.Add(e); err != nil {
				t.Fatal(err)
			}
		}
	}
	path, keep := script(t, "cat <<'END'\n"+lines.String()+"END\nexec cat >/dev/null\n"), t.TempDir()
	code, out, notes := say(t, t.Context(), "-for", "100ms", "-store", "local", "-faults", "none", "-workers", "1", "-worker", path, "-keep", keep)
	if code != exitViolated || !strings.Contains(out, "w1.1") {
		t.Errorf("exit code %d, want %d:\n%s%s", code, exitViolated, out, notes)
	}
	for _, name := range []string{"history.jsonl", "violation1.svg"} {
		if info, err := os.Stat(filepath.Join(keep, name)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestARunThatProvesNothingExitsWith2(t *testing.T) {
	local := []string{"-for", "100ms", "-store", "local", "-faults", "none"}
	local = local[:len(local):len(local)]
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"an idle worker":           {append(local, "-worker", script(t, "exec cat >/dev/null\n")), "never had a lock"},
		"a worker that breaks off": {append(local, "-for", "1h", "-worker", script(t, "echo overboard >&2; exit 7\n")), "overboard"},
		"no worker":                {append(local, "-worker", filepath.Join(t.TempDir(), "none")), "none"},
		"no time for a fault":      {[]string{"-for", "2s", "-store", "local", "-worker", script(t, "exec cat >/dev/null\n")}, "too short"},
		"an unknown kind":          {[]string{"-faults", "SIGKILL,earthquake"}, `"earthquake"`},
		"parameters of a file":     {[]string{"-store", "local", "-parameters", "wait_replicas=1"}, "-parameters are for"},
		"somebody's server":        {[]string{"-store", "redis://host"}, "the run's own"},
		"a stray word":             {[]string{"10s"}, `"10s"`},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, notes := say(t, t.Context(), c.args...)
			if code != exitFailed || out != "" || !strings.Contains(notes, c.want) {
				t.Errorf("exit code %d, want %d and %s:\n%s%s", code, exitFailed, c.want, out, notes)
			}
		})
	}
}

func TestAnInterruptedRunLeavesNothing(t *testing.T) {
	path := script(t, "exec cat >/dev/null\n")
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	code, out, notes := say(t, ctx, "-for", "1h", "-store", "local", "-worker", path)
	if code != exitInterrupted || out != "" {
		t.Errorf("exit code %d, want %d:\n%s%s", code, exitInterrupted, out, notes)
	}
}

func TestEveryKindOfFaultIsListedAndHasItsAction(t *testing.T) {
	for _, store := range storeKinds {
		_, out, _ := say(t, t.Context(), "-faults", "list", "-store", store)
		r := &run{backend: newBackend(options{store: store}, "", nil)}
		actions := r.actions()
		kinds := nemesis.Of(store)
		for _, kind := range kinds {
			if !strings.Contains(out, kind.Name) || actions[kind.Name] == nil {
				t.Errorf("%s: %s is not listed, or has no action", store, kind.Name)
			}
		}
		if len(actions) != len(kinds) {
			t.Errorf("%s: %d actions for %d kinds", store, len(actions), len(kinds))
		}
	}
}

func TestFaultsAreChosenByName(t *testing.T) {
	for text, want := range map[string]int{
		"all": len(nemesis.Kinds), "none": 0, "FLUSHALL": 1, "FLUSHALL,SIGKILL": 2, "lossless": len(nemesis.Kinds) - 5,
	} {
		if kinds, err := chooseKinds(text, "redis"); err != nil || len(kinds) != want {
			t.Errorf("%s: %d kinds, %v, want %d", text, len(kinds), err, want)
		}
	}
	if kinds, err := chooseKinds("lossless", "postgres"); err != nil || len(kinds) != len(nemesis.OfPostgres)-2 {
		t.Errorf("%d kinds without loss in Postgres, %v", len(kinds), err)
	}
	if _, err := chooseKinds("FLUSHALL", "postgres"); err == nil {
		t.Error("Postgres is flushed like Redis")
	}
	kinds, err := chooseKinds("all", "local")
	for _, kind := range kinds {
		if kind.Lane != nemesis.Processes {
			t.Errorf("%s for a store without server", kind.Name)
		}
	}
	if err != nil || len(kinds) == 0 {
		t.Errorf("%d kinds, %v", len(kinds), err)
	}
}

func TestErrorsOfHoldfastAreToldApart(t *testing.T) {
	for _, c := range []struct {
		err  error
		want history.Outcome
	}{
		{nil, history.OK},
		{&holdfast.HeldError{}, history.Held},
		{&holdfast.HeldError{Err: context.DeadlineExceeded}, history.Held},
		{&holdfast.LostError{}, history.LostLease},
		{fmt.Errorf("no answer: %w", context.Canceled), history.Cancelled},
		{fmt.Errorf("no answer: %w", context.DeadlineExceeded), history.Cancelled},
		{holdfast.ErrUnreachable, history.Unreachable},
		{holdfast.ErrRefused, history.Refused},
		{holdfast.ErrClosed, history.Failed},
	} {
		if got := (&locker{}).Outcome(c.err); got != c.want {
			t.Errorf("%v: %s, want %s", c.err, got, c.want)
		}
	}
}
