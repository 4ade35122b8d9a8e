package report_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfastlock/holdfast/torture/check"
	"github.com/holdfastlock/holdfast/torture/history"
	"github.com/holdfastlock/holdfast/torture/report"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var update = flag.Bool("update", false, "write what the report looks like now to testdata")

const ms = int64(time.Millisecond)

// freed is a history in which the late release of w1.1, which was frozen past
// its deadline, frees the lock that w2.1 has taken over, so that w3.1 gets it
// too.
func freed() []history.Event {
	fault := func(at int64, kind history.Kind, op int64, what, target string) history.Event {
		return history.Event{At: at * ms, Kind: kind, Process: "nemesis", Op: op, Fault: what, Name: target}
	}
	call := func(at int64, process string, op int64, do history.Do) history.Event {
		return history.Event{At: at * ms, Kind: history.Call, Process: process, Op: op, Do: do, Name: "a", Lease: op - 1}
	}
	answer := func(at int64, process string, op int64, do history.Do, outcome history.Outcome) history.Event {
		return history.Event{At: at * ms, Kind: history.Return, Process: process, Op: op, Do: do, Name: "a", Lease: op - 1, Outcome: outcome}
	}
	granted := func(at int64, process string, fence, deadline int64) history.Event {
		e := answer(at, process, 1, history.Acquire, history.OK)
		e.Fence, e.Deadline = fence, deadline*ms
		return e
	}
	return []history.Event{
		call(1000, "w1.1", 1, history.Acquire),
		granted(1004, "w1.1", 41, 1980),
		fault(1100, history.Fault, 1, "SIGSTOP", "w1.1"),
		call(1500, "w2.1", 1, history.Acquire),
		call(1700, "w3.1", 1, history.Acquire),
		granted(2011, "w2.1", 42, 2990),
		fault(2600, history.Heal, 1, "SIGSTOP", "w1.1"),
		{At: 2601 * ms, Kind: history.Lost, Process: "w1.1", Op: 1, Name: "a"},
		call(2602, "w1.1", 2, history.Release),
		answer(2604, "w1.1", 2, history.Release, history.LostLease),
		granted(2606, "w3.1", 43, 3580),
		{At: 2640 * ms, Kind: history.Extended, Process: "w2.1", Op: 1, Name: "a", Deadline: 3620 * ms},
		fault(2650, history.Fault, 2, "reply lost", "proxy"),
		fault(2690, history.Heal, 2, "reply lost", "proxy"),
		call(2700, "w2.1", 2, history.Release),
		answer(2702, "w2.1", 2, history.Release, history.LostLease),
		fault(2750, history.Fault, 3, check.Kill, "w3.1"),
	}
}

// overwritten is a history in which a guarded resource loses a write, because
// both writers had read before either wrote.
func overwritten() []history.Event {
	decision := func(at int64, process string, op int64, do history.Do, based, version, fence int64) history.Event {
		return history.Event{
			At: at * ms, Kind: history.Accepted, Process: process, Op: op, Lease: 1, Do: do, Name: "guarded/a",
			Based: based, Version: version, Fence: fence, Guarded: true, Value: process + "/1",
		}
	}
	var all []history.Event
	for _, d := range []history.Event{
		decision(1001, "w2.1", 2, history.Touch, 0, 0, 42), decision(1005, "w1.1", 2, history.Touch, 0, 0, 42),
		decision(1010, "w1.1", 3, history.Write, 0, 1, 42), decision(1020, "w2.1", 3, history.Write, 0, 2, 42),
	} {
		call := d
		call.At, call.Kind, call.Version, call.Guarded = d.At-ms, history.Call, 0, false
		all = append(all, call, d)
	}
	return all
}

func rules() check.Rules {
	return check.Rules{
		TTL: time.Second, Linger: 100 * time.Millisecond, Recovery: 4 * time.Second, Losses: []string{"FLUSHALL"},
	}
}

// find returns the violation of that kind in a history.
func find(t *testing.T, events []history.Event, kind string) check.Violation {
	t.Helper()
	for _, v := range check.Check(events, rules()).Violations {
		if v.Kind == kind {
			return v
		}
	}
	t.Fatalf("the history shows no violation of %s", kind)
	return check.Violation{}
}

func TestATimelineShowsWhoHeldWhat(t *testing.T) {
	for name, events := range map[string][]history.Event{
		check.Exclusion: freed(), check.Linearizability: freed(), check.LostUpdate: overwritten(),
	} {
		timeline := report.NewTimeline(events, find(t, events, name))
		var text bytes.Buffer
		succeed(t, timeline.WriteText(&text))
		golden(t, strings.ReplaceAll(name, " ", "-")+".txt", text.Bytes())
	}
}

func TestThePictureIsWellFormedAndShowsWhatTheTextDoes(t *testing.T) {
	events := freed()
	v := find(t, events, check.Exclusion)
	v.Text += " <&>"
	var picture bytes.Buffer
	succeed(t, report.NewTimeline(events, v).WriteSVG(&picture))
	var words strings.Builder
	decoder := xml.NewDecoder(bytes.NewReader(picture.Bytes()))
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		succeed(t, err)
		if text, ok := token.(xml.CharData); ok {
			words.Write(text)
		}
	}
	for _, want := range []string{"<&>", "w2.1", "granted, fence 43", "told: lost", "reply lost proxy", "+595.000 ms"} {
		if !strings.Contains(words.String(), want) {
			t.Errorf("the picture does not say %q", want)
		}
	}
}

func TestALongTimelineLeavesOutItsMiddle(t *testing.T) {
	events := freed()
	for i := range int64(500) {
		at := 2640*ms + i
		events = append(events, history.Event{At: at, Kind: history.Extended, Process: "w2.1", Op: 1, Name: "a", Deadline: 3620*ms + i})
	}
	var text bytes.Buffer
	succeed(t, report.NewTimeline(events, find(t, events, check.Exclusion)).WriteText(&text))
	if lines := strings.Count(text.String(), "\n"); lines > 65 {
		t.Errorf("the timeline has %d lines", lines)
	}
	for _, want := range []string{"events left out", "granted, fence 42", "• release"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the timeline does not say %q", want)
		}
	}
}

func document(events []history.Event) report.Document {
	return report.New(report.Run{
		Store: "redis", Seed: 7, Duration: 3 * time.Minute,
		Versions: map[string]string{"valkey": "9.1.0", "go": "1.26"},
		Command:  "go run ./torture -store redis -seed 7",
	}, check.Check(events, rules()))
}

func TestTheTableSaysWhatWasFound(t *testing.T) {
	lossy := freed()
	for i := range lossy {
		if lossy[i].Fault == "reply lost" {
			lossy[i].Fault, lossy[i].At = "FLUSHALL", lossy[i].At-100*ms
		}
	}
	for name, events := range map[string][]history.Event{"violations.txt": freed(), "losses.txt": lossy} {
		var table bytes.Buffer
		succeed(t, document(events).WriteTable(&table))
		golden(t, name, table.Bytes())
	}
}

func TestTheDocumentHasItsKeys(t *testing.T) {
	for name, events := range map[string][]history.Event{"with violations": freed(), "without": freed()[:2]} {
		var text bytes.Buffer
		succeed(t, document(events).WriteJSON(&text))
		var got map[string]any
		succeed(t, json.Unmarshal(text.Bytes(), &got))
		for _, key := range []string{
			"operations", "faults", "violations", "tenures", "unknown", "documented_losses", "longest_recovery_ns",
			"seed", "store", "duration_ns", "versions",
		} {
			if got[key] == nil {
				t.Errorf("%s: %s is missing", name, key)
			}
		}
		violations, ok := got["violations"].(map[string]any)
		if !ok || (len(violations) > 0) != (name == "with violations") {
			t.Errorf("%s: violations are %v", name, got["violations"])
		}
	}
}

// golden compares with a file of testdata, or writes it with -update.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		succeed(t, os.WriteFile(path, got, 0o644))
	}
	want, err := os.ReadFile(path)
	succeed(t, err)
	if !bytes.Equal(got, want) {
		t.Errorf("%s has changed (go test -update writes it anew):\n%s", path, got)
	}
}

func succeed(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
