package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	_ "unsafe" // for go:linkname

	"github.com/holdfastlock/holdfast/internal/redistest"
)

// clockVariable puts the clock of a command wrong, by a duration. The test binary
// alone knows it.
const clockVariable = "HOLDFAST_TEST_CLOCK"

// commandClock is the variable of the command by which it tells the time.
//
//go:linkname commandClock github.com/holdfastlock/holdfast/internal/command.now
var commandClock func() time.Time

// skewClock makes this process one of a host whose clock is wrong.
func skewClock() {
	if text := os.Getenv(clockVariable); text != "" {
		skew, err := time.ParseDuration(text)
		must(err)
		commandClock = host{skew}.now
	}
}

// host is a machine whose clock is wrong.
type host struct{ skew time.Duration }

func (h host) now() time.Time { return time.Now().Add(h.skew) }

// command returns a holdfast command as this host's cron starts it.
func (h host) command(url string, args ...string) *process {
	p := prepare(url, args...)
	p.Env = append(p.Env, clockVariable+"="+h.skew.String())
	return p
}

// occasion is one slot of a job.
type occasion struct {
	job    string
	every  time.Duration
	starts time.Time
}

// occasionAt returns one that begins at a moment or just after. Its period is
// chosen so that it has a slot there, and so that a host may be 3 s early: a
// tenth of the period is more.
func occasionAt(job string, moment time.Time) occasion {
	const shortest, near = 40 * time.Second, 50 * time.Millisecond
	for every := shortest; ; every += time.Millisecond {
		if next := moment.Truncate(every).Add(every); next.Sub(moment) < near {
			return occasion{job, every, next}
		}
	}
}

func TestFiveHostsWithWrongClocksRunAJobOfAMillisecondOnceInEachOfTenSlots(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, url string) {
		const slots, most, apart = 10, 3 * time.Second, 300 * time.Millisecond
		file := filepath.Join(t.TempDir(), "runs")
		first := time.Now().Add(most + time.Second)
		var occasions []occasion
		for i := range slots {
			occasions = append(occasions, occasionAt(fmt.Sprint("job-", i), first.Add(time.Duration(i)*apart)))
		}
		var hosts sync.WaitGroup
		for _, skew := range []time.Duration{-most, -90 * time.Millisecond, 0, 80 * time.Millisecond, most} {
			for _, o := range occasions {
				hosts.Go(func() { host{skew}.cron(t, url, o, file) })
			}
		}
		hosts.Wait()
		text, err := os.ReadFile(file)
		if err != nil || strings.Count(string(text), "\n") != slots {
			t.Errorf("%d runs were wanted; %v: %s", slots, err, text)
		}
		for _, o := range occasions {
			want := fmt.Sprintf("%s %s 1\n", o.job, o.starts.UTC().Format(time.RFC3339Nano))
			if n := strings.Count(string(text), want); n != 1 {
				t.Errorf("%d runs of %q", n, want)
			}
			runs := runsOf(t, url, o.job)
			if len(runs) != 1 || runs[0].Attempt != 1 || runs[0].Outcome != "done" {
				t.Errorf("%s: the record is %+v", o.job, runs)
			}
		}
	})
}

// cron waits until the slot begins by the host's own clock, and then runs the
// job, which writes a line for each run.
func (h host) cron(t *testing.T, url string, o occasion, file string) {
	time.Sleep(o.starts.Sub(h.now()))
	p := h.command(url, "run", "--every", o.every.String(), "--connect-timeout", patience.String(), o.job, "--",
		"sh", "-c", `echo "$HOLDFAST_NAME $HOLDFAST_SLOT $HOLDFAST_ATTEMPT" >>`+file)
	if err := p.Start(); err != nil {
		t.Error(err)
		return
	}
	if code, err := p.end(); code != 0 || err != nil {
		t.Errorf("the host that is off by %v ended with %d (%v) and said %q", h.skew, code, err, &p.stderr)
	}
}

// TestTheClockOfTheTestsReachesTheCommand shows that the test of the wrong clocks
// is one: what the command tells people is by the clock that it was given.
func TestTheClockOfTheTestsReachesTheCommand(t *testing.T) {
	t.Parallel()
	url := redistest.Start(t, redistest.Options{}).URL()
	dir := t.TempDir()
	holder := holdfast(t, url, "run", lockName, "--", "job", dir)
	waitFor(t, dir, 1)
	const skew = 72 * time.Hour
	show := host{skew}.command(url, "show", lockName)
	out, err := show.Output()
	since := regexp.MustCompile(`since +(\S+ \S+) \(`).FindSubmatch(out)
	if err != nil || since == nil {
		t.Fatalf("show: %v: %s", err, out)
	}
	told, err := time.ParseInLocation(time.DateTime, string(since[1]), time.Local)
	if off := time.Until(told) - skew; err != nil || off.Abs() > patience {
		t.Errorf("it tells of %s (%v), which is off by %v", since[1], err, off)
	}
	finish(t, dir)
	if got := holder.code(t); got != 0 {
		t.Errorf("the holder ended with %d: %s", got, &holder.stderr)
	}
}

// TestTheShippedCommandHasNoClockButTheSystems builds the command as this test
// was built, so that little is left to do.
func TestTheShippedCommandHasNoClockButTheSystems(t *testing.T) {
	t.Parallel()
	shipped := filepath.Join(t.TempDir(), "holdfast")
	args := append([]string{"build", "-o", shipped}, buildFlags()...)
	if out, err := exec.Command("go", append(args, ".")...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for program, want := range map[string]bool{os.Args[0]: true, shipped: false} {
		code, err := os.ReadFile(program)
		if err != nil || bytes.Contains(code, []byte(clockVariable)) != want {
			t.Errorf("%s: %v; that it knows %s is to be %v", program, err, clockVariable, want)
		}
	}
}

// buildFlags are those of this test binary that a build of the command needs to
// find its packages built; others are in GOFLAGS.
func buildFlags() []string {
	info, ok := debug.ReadBuildInfo()
	if ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		return []string{"-race"}
	}
	return nil
}

// TestWhatJudgesASlotReadsNoClock covers the hosts that the test of five does not
// have: their clocks are not asked at all. The embedded store's clock is that of
// the machine, which is all it serves.
func TestWhatJudgesASlotReadsNoClock(t *testing.T) {
	reads := regexp.MustCompile(`time\.(Now|Since|Until)\b`)
	for _, pattern := range []string{
		"../../once/*.go", "../../driver/*.go", "../../redisstore/*slot.go",
		"../../internal/command/runslot.go", "../../internal/command/slotflags.go",
	} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: no files (%v)", pattern, err)
		}
		for _, file := range files {
			code, err := os.ReadFile(file)
			if err != nil || !strings.HasSuffix(file, "_test.go") && reads.Match(code) {
				t.Errorf("%s reads the clock of its host (%v)", file, err)
			}
		}
	}
}
