package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// TestMain is also what runs when a test starts a worker process.
func TestMain(m *testing.M) {
	if os.Getenv(workerVariable) != "" {
		exit(worker(os.Stdin, os.Stdout))
	}
	// A client that finds no cluster has begun to look for one again later, and
	// does not stop that when it is closed.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*call).DelayDo.func1"))
}

func startTestServer(t *testing.T) *server {
	t.Helper()
	s, err := startServer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.stop)
	return s
}

func planOf(t *testing.T, args ...string) plan {
	t.Helper()
	p, err := parse(args)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestEveryOperationIsOneRoundTripExceptToLearnWhoHoldsABareName(t *testing.T) {
	results, err := measureCommands(t.Context(), startTestServer(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		want := 1
		if r.Operation == "TryAcquire of a held name WithoutFence" {
			want = 2
		}
		if r.RoundTrips != want*r.Reps || r.Took < turnLag*commandReps {
			t.Errorf("%s: %d round trips and %v for %d, want %d for each", r.Operation, r.RoundTrips, r.Took, r.Reps, want)
		}
	}
}

func TestEachQuorumLocksKeysAndOneKeyForMany(t *testing.T) {
	startTestServer(t) // or skips
	var r report
	if err := r.measureQuorum(t.Context(), planOf(t, "-reps", "1", "-duration", "300ms", "-goroutines", "3")); err != nil {
		t.Fatal(err)
	}
	if len(r.Quorum) != 4 || len(r.Contended) != 4 {
		t.Errorf("%d and %d results, want 4 each", len(r.Quorum), len(r.Contended))
	}
	for _, o := range r.Quorum {
		if o.pairs() == 0 || o.overlaps() != 0 {
			t.Errorf("%s: %+v", o.Library, o.Runs[0])
		}
	}
	for _, c := range r.Contended {
		if c.Runs[0].Taken == 0 || c.overlaps() != 0 {
			t.Errorf("%s: %+v", c.Library, c.Runs[0])
		}
	}
}

func TestEveryLibraryLocksAndFreesItsKeysByTwoCommands(t *testing.T) {
	s := startTestServer(t)
	p := planOf(t, "-reps", "1", "-duration", "200ms", "-goroutines", "3")
	own := p.onOneServer()
	results, err := measureOwn(t.Context(), s, p, func(lib library) bool { return own(lib) || onClients(lib) }, p.goroutines)
	if err != nil {
		t.Fatal(err)
	}
	want := len(libraries) - len(p.chosen(inQuorum)) - 2 // two only matter under contention
	if len(results) != want {
		t.Errorf("%d results, want %d", len(results), want)
	}
	for _, r := range results {
		if r.pairs() == 0 || r.overlaps() != 0 || r.Runs[0].SentPerPair < 2 || r.Runs[0].SentPerPair > 3 {
			t.Errorf("%s: %+v", r.Library, r.Runs[0])
		}
	}
	keys, err := s.admin.Do(t.Context(), s.admin.B().Keys().Pattern("*own:*").Build()).AsStrSlice()
	for _, key := range keys {
		if err != nil || !strings.Contains(key, "~") { // a companion of holdfast's stays for a day
			t.Errorf("key left: %v, %v", key, err)
		}
	}
}

// contention returns what each library of the contest did.
func contention(t *testing.T, c contest) []contendedResult {
	t.Helper()
	results, err := measureContended(t.Context(), startTestServer(t), planOf(t, "-reps", "1"), c)
	if err != nil {
		t.Fatal(err)
	}
	return results
}

func TestNoLibraryHasTwoHoldersInOneProcess(t *testing.T) {
	all := named("holdfast", "holdfast-nopassing", "holdfast-lockers")
	for _, r := range contention(t, contest{"onekey", 1, 8, 0, 100 * time.Millisecond, 300 * time.Millisecond, all}) {
		run := r.Runs[0]
		if r.overlaps() != 0 || run.Taken == 0 || run.Sent == 0 || run.FromOthers != 0 {
			t.Errorf("%s: %+v", r.Library, run)
		}
		if run.Jain < 1.0/8 || run.Jain > 1.0001 || run.HandOffs > run.Taken {
			t.Errorf("%s: %+v", r.Library, run)
		}
	}
}

func TestNoLibraryHasTwoHoldersInManyProcesses(t *testing.T) {
	all := named("holdfast", "holdfast-nopassing")
	for _, r := range contention(t, contest{"procs", 3, 2, time.Millisecond, 100 * time.Millisecond, 500 * time.Millisecond, all}) {
		run := r.Runs[0]
		// Among pollers one process may have the lock all the time.
		fair := strings.HasPrefix(r.Library, "holdfast")
		if r.overlaps() != 0 || run.Taken == 0 || fair && run.FromOthers == 0 || run.P99 < run.P50 {
			t.Errorf("%s: %+v", r.Library, run)
		}
	}
}

// noLocks lets everybody in.
type noLocks struct{}

func (noLocks) Acquire(context.Context, string) (func(context.Context) error, error) {
	return func(context.Context) error { return nil }, nil
}

func (noLocks) Close() {}

func TestALockThatDoesNotExcludeIsNoticed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ledger")
	if err := createLedger(file); err != nil {
		t.Fatal(err)
	}
	shared, unmap, err := openLedger(file)
	if err != nil {
		t.Fatal(err)
	}
	defer unmap()
	j := job{Goroutines: 4, Section: time.Millisecond, Duration: 50 * time.Millisecond}
	s, err := j.contend(t.Context(), noLocks{}, shared)
	if err != nil || s.Overlaps == 0 {
		t.Errorf("%+v, %v", s, err)
	}
	r := report{Contended: []contendedResult{{Library: "none", Runs: []contendedRun{{Overlaps: s.Overlaps}}}}}
	if r.sound() == nil {
		t.Error("the report is sound")
	}
}

func TestLocksThatAreKeptAliveAreNotLost(t *testing.T) {
	p := planOf(t, "-leases", "300", "-ttl", "1s", "-hold", "2s")
	results, err := measureKeepalive(t.Context(), startTestServer(t), p)
	if err != nil || len(results) != 2 {
		t.Fatal(results, err)
	}
	for _, r := range results {
		if r.Lost != 0 || r.Sent == 0 || r.CPU == 0 {
			t.Errorf("%+v", r)
		}
	}
}

func TestALockThatIsGoneWhileItIsKeptAliveIsNoticed(t *testing.T) {
	s := startTestServer(t)
	l, err := openHoldfast(t.Context(), s.addr, lockTTL)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	releases, err := acquireMany(t.Context(), l, 3)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.admin.Do(t.Context(), s.admin.B().Del().Key("lock:kept:1").Build()).Error(); err != nil {
		t.Fatal(err)
	}
	lib, err := find("holdfast")
	if err != nil {
		t.Fatal(err)
	}
	r := keptResult{Leases: 3}
	if err := r.releaseMany(t.Context(), s, lib, releases); err != nil || r.Lost != 1 {
		t.Errorf("%d lost, %v", r.Lost, err)
	}
}

func TestTheServersOwnRateIsMeasured(t *testing.T) {
	if _, err := exec.LookPath("redis-benchmark"); err != nil {
		t.Skip(err)
	}
	results, err := measureLimit(t.Context(), startTestServer(t))
	if err != nil || len(results) != 3 {
		t.Fatal(results, err)
	}
	for _, r := range results {
		if r.PerSecond < 1 {
			t.Errorf("%+v", r)
		}
	}
}

func TestTheLineOfRatiosHasEachFigureOnce(t *testing.T) {
	var r report
	for _, n := range []int{1, 64, 1024} {
		for i, lib := range []string{"redislock", "redsync-rueidis", "holdfast", "holdfast-unfenced"} {
			r.Own = append(r.Own, ownResult{lib, i < 2, n, []ownRun{{PairsPerSecond: float64(i+1) * 10}}})
		}
	}
	add := func(lib, workload string, goroutines int, taken, handOffs, fromOthers int64) {
		r.Contended = append(r.Contended, contendedResult{lib, contest{Workload: workload, Goroutines: goroutines}, []contendedRun{
			{Took: time.Second, Taken: taken, HandOffs: handOffs, FromOthers: fromOthers, Sent: 600, Jain: 0.995},
		}})
	}
	add("holdfast", "onekey", 16, 1000, 900, 0)
	add("redislock", "onekey", 16, 100, 3, 0)
	add("rueidislock", "onekey", 16, 20, 9, 0)
	add("holdfast-nopassing", "procs", 8, 300, 300, 280)
	add("rueidislock", "procs", 8, 300, 300, 100)
	if r.ratios() != nil {
		t.Error("ratios without keepalive")
	}
	r.Keepalive = []keptResult{
		{Library: "holdfast", Hold: 10 * time.Second, CPU: time.Second},
		{Library: "rueidislock", Hold: 20 * time.Second, CPU: 4 * time.Second},
	}
	const want = "ratios own1=2.00 own64=2.00 own64_fenced=1.50 own1024=2.00 own1024_fenced=1.50 " +
		"onekey16=10.00 onekey16_handoffs=100.00 jain16=0.99 procs8=2.80 procs8_cmds=2.00 keepalive_cpu=0.50\n"
	if got := ratiosLine(r.ratios()); got != strings.Replace(want, "jain16=0.99 ", fmt.Sprintf("jain16=%.2f ", 0.995), 1) {
		t.Errorf("%q", got)
	}
	r.Ratios = r.ratios()
	if text := r.markdown(); !regexp.MustCompile(`\nratios( [a-z0-9_]+=[0-9.]+){11}\n$`).MatchString(text) {
		t.Errorf("the table does not end with it: %q", text)
	}
}

func TestAWorkerEndsWhenItsParentHasGone(t *testing.T) {
	s := startTestServer(t)
	file := filepath.Join(t.TempDir(), "ledger")
	if err := createLedger(file); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	m := enlist(ctx, job{"holdfast", s.addr, file, 0, 1, 0, 0, time.Hour}, true)
	if err := m.waitReady(); err != nil {
		t.Fatal(err)
	}
	close(m.begin)
	cancel()
	<-m.ended
	if m.failed == nil {
		t.Error("it ended after an hour")
	}
}

func TestACommandIsReadWhole(t *testing.T) {
	const first = "*2\r\n$3\r\nGET\r\n$5\r\na\r\nb$\r\n"
	command, words, err := readCommand(bufio.NewReader(strings.NewReader(first + "*1\r\n$4\r\nPING\r\n")))
	if err != nil || string(command) != first || len(words) != 2 || words[1] != "a\r\nb$" {
		t.Errorf("%q, %q, %v", command, words, err)
	}
}

func TestTheMedianIsTheMiddle(t *testing.T) {
	if got := median([]float64{9, 1, 5}); got != 5 {
		t.Errorf("of 9, 1, 5: %v", got)
	}
	if got := median([]float64{4, 1, 3, 2}); got != 2.5 {
		t.Errorf("of 4, 1, 3, 2: %v", got)
	}
}

func TestAQuantileIsWithinFivePercent(t *testing.T) {
	var h histogram
	for us := range int64(1000) {
		h.observe((us + 1) * 1000)
	}
	for q, want := range map[float64]time.Duration{0.5: 500 * time.Microsecond, 0.99: 990 * time.Microsecond} {
		if got := h.quantile(q); got < want || got > want*106/100 {
			t.Errorf("%v: %v, want %v", q, got, want)
		}
	}
}

func TestJainsIndexIsOneWhenAllHaveTheSame(t *testing.T) {
	if even, one := jain([]int64{3, 3, 3, 3}), jain([]int64{8, 0, 0, 0}); even != 1 || one != 0.25 {
		t.Errorf("%v, %v", even, one)
	}
}
