package once

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/holdfastlock/holdfast"
	"github.com/holdfastlock/holdfast/driver"
	"github.com/holdfastlock/holdfast/internal/redistest"
	"github.com/holdfastlock/holdfast/open"
)

// realTTL is that of the hosts below, which are processes.
const realTTL = 2 * time.Second

// roles are what a process can be, by the value of roleVariable. Each is given
// the URL of the store.
var roles = map[string]func(args []string) error{
	"crash": func(args []string) error { return runOnce(args[0], forever) },
	"take":  func(args []string) error { return runOnce(args[0], works, StandBy(Forever)) },
	"pause": func(args []string) error { return runOnce(args[0], untilTold, StandBy(Forever)) },
	"ticks": runTicks,
}

// forever works until it is killed.
func forever(ctx context.Context, _ Attempt) error {
	fmt.Println("begun")
	<-ctx.Done()
	return context.Cause(ctx)
}

// untilTold works, whatever becomes of its lease, until standard input ends.
func untilTold(context.Context, Attempt) error {
	fmt.Println("begun")
	_, _ = os.Stdin.Read(make([]byte, 1))
	return nil
}

// withLocker calls use with a locker on the store of the URL.
func withLocker(url string, use func(locker *holdfast.Locker) error) error {
	store, closer, err := open.Store(context.Background(), url, open.Options{})
	if err != nil {
		return err
	}
	defer closer.Close()
	locker, err := holdfast.New(store, holdfast.Config{TTL: realTTL})
	if err != nil {
		return err
	}
	defer locker.Close(context.Background())
	return use(locker)
}

// runOnce runs slot s of the job and prints what that came to.
func runOnce(url string, fn func(context.Context, Attempt) error, opts ...Option) error {
	return withLocker(url, func(locker *holdfast.Locker) error {
		result, err := Run(context.Background(), locker, "job", Slot("s"), fn, opts...)
		switch {
		case errors.Is(err, holdfast.ErrLost):
			fmt.Println("lost")
		case err != nil:
			return err
		default:
			fmt.Println(result.Outcome)
		}
		return nil
	})
}

// runTicks is a host whose clock is off by what it is given: it comes once a
// second by its own clock, and prints each slot that it runs.
func runTicks(args []string) error {
	skew, err := time.ParseDuration(args[1])
	if err != nil {
		return err
	}
	first, err := time.Parse(time.RFC3339Nano, args[2])
	if err != nil {
		return err
	}
	return withLocker(args[0], func(locker *holdfast.Locker) error {
		for tick := range ticks {
			time.Sleep(time.Until(first.Add(time.Duration(tick)*time.Second - skew)))
			_, err := Run(context.Background(), locker, "job", Every(time.Second), func(_ context.Context, a Attempt) error {
				fmt.Println(a.Slot)
				time.Sleep(time.Millisecond)
				return nil
			})
			if err != nil && !errors.Is(err, holdfast.ErrHeld) { // a late host may still run the slot before
				return err
			}
		}
		return nil
	})
}

// process is one host.
type process struct {
	*exec.Cmd
	stdin io.Closer
	out   *bufio.Scanner
}

func spawn(t *testing.T, role string, args ...string) *process {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), roleVariable+"="+role)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	return &process{cmd, stdin, bufio.NewScanner(out)}
}

// says waits for the next line.
func (p *process) says() string {
	p.out.Scan()
	return p.out.Text()
}

// onRealStores runs a test on each store that processes can share.
func onRealStores(t *testing.T, test func(t *testing.T, url string)) {
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		test(t, "redis://"+redistest.Start(t, redistest.Options{}).Addr())
	})
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		test(t, "sqlite://"+filepath.Join(t.TempDir(), "locks.db"))
	})
}

// lastRun reads slot s of the job.
func lastRun(t *testing.T, url string) driver.Run {
	t.Helper()
	var runs []driver.Run
	err := withLocker(url, func(locker *holdfast.Locker) (err error) {
		runs, err = Runs(t.Context(), locker, "job", 1)
		return err
	})
	if err != nil || len(runs) != 1 {
		t.Fatalf("runs %+v, %v", runs, err)
	}
	return runs[0]
}

func TestARunnerThatIsKilledIsSucceededByOneOfElevenProcesses(t *testing.T) {
	onRealStores(t, func(t *testing.T, url string) {
		runner := spawn(t, "crash", url)
		if line := runner.says(); line != "begun" {
			t.Fatal(line)
		}
		first := lastRun(t, url)
		var others []*process
		for range 11 {
			others = append(others, spawn(t, "take", url))
		}
		time.Sleep(realTTL / 2) // whether all of them stand by yet makes no difference
		runner.Process.Kill()
		killed := time.Now()
		said := make(map[string]int)
		for _, p := range others {
			said[p.says()]++
		}
		if said[Ran.String()] != 1 || said[StoodBy.String()]+said[Done.String()] != 10 {
			t.Errorf("the eleven say %v", said)
		}
		run := lastRun(t, url)
		if run.Phase != driver.Done || run.Attempt != 2 || run.Fence <= first.Fence || run.Owner() == first.Owner() {
			t.Errorf("after %+v the run is %+v", first, run)
		}
		if late := run.Began.Sub(killed); late > realTTL+time.Second {
			t.Errorf("taken over %v after the kill", late)
		}
	})
}

func TestAProcessThatWasPausedPastItsTTLIsAZombie(t *testing.T) {
	onRealStores(t, func(t *testing.T, url string) {
		zombie := spawn(t, "pause", url)
		if line := zombie.says(); line != "begun" {
			t.Fatal(line)
		}
		zombie.Process.Signal(syscall.SIGSTOP)
		successor := spawn(t, "pause", url)
		if line := successor.says(); line != "begun" {
			t.Fatal(line)
		}
		zombie.stdin.Close()
		zombie.Process.Signal(syscall.SIGCONT)
		if line := zombie.says(); line != "lost" {
			t.Errorf("the zombie says %q", line)
		}
		run := lastRun(t, url)
		if run.Phase != driver.Running || run.Attempt != 2 || run.Left <= 0 {
			t.Errorf("after the zombie's return the run is %+v", run)
		}
		successor.stdin.Close()
		if line := successor.says(); line != Ran.String() {
			t.Errorf("the successor says %q", line)
		}
		if run := lastRun(t, url); run.Phase != driver.Done || run.Attempt != 2 {
			t.Errorf("at last the run is %+v", run)
		}
	})
}

const ticks = 10

func TestFiveProcessesWithSkewedClocksRunTenSlotsTenTimes(t *testing.T) {
	onRealStores(t, func(t *testing.T, url string) {
		first := time.Now().Truncate(time.Second).Add(3 * time.Second)
		var mu sync.Mutex
		ran := make(map[string]int)
		var hosts sync.WaitGroup
		for _, skew := range []string{"-3s", "-90ms", "0s", "80ms", "3s"} {
			p := spawn(t, "ticks", url, skew, first.Format(time.RFC3339Nano))
			hosts.Go(func() {
				for line := p.says(); line != ""; line = p.says() {
					mu.Lock()
					ran[line]++
					mu.Unlock()
				}
			})
		}
		hosts.Wait()
		for slot, n := range ran {
			if n != 1 || !strings.HasSuffix(slot, "Z") {
				t.Errorf("slot %s ran %d times", slot, n)
			}
		}
		for tick := range ticks {
			if slot := first.Add(time.Duration(tick) * time.Second).UTC().Format(time.RFC3339Nano); ran[slot] != 1 {
				t.Errorf("slot %s ran %d times: %v", slot, ran[slot], ran)
			}
		}
	})
}
