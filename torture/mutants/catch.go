package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/holdfastlock/holdfast/torture/overlay"
)

// verdict is what became of a mutant.
type verdict struct {
	caught bool
	took   time.Duration // without the build
	effort string        // how many seeds or operations
	how    string        // the first violation
	err    error         // neither caught nor not
}

// try builds the catcher with the mutant in it, and runs it until it reports a
// violation or the time is over.
func (r *runner) try(m mutant) verdict {
	dir, err := os.MkdirTemp(r.dir, m.name+"-")
	if err != nil {
		return verdict{err: err}
	}
	var v verdict
	switch m.catcher.kind {
	case "simulation":
		v = r.simulate(m, dir)
	case "torture":
		v = r.torture(m, dir)
	default:
		v = r.test(m, dir)
	}
	if errors.Is(r.ctx.Err(), context.Canceled) {
		v.err = errors.New("interrupted")
	}
	return v
}

// build runs a go command that writes the file, with the mutant and other
// patches in an overlay.
func (r *runner) build(m mutant, dir, file string, others []overlay.Patch, command ...string) error {
	patches := others
	if m.patch.Text != nil {
		patches = append(patches, m.patch)
	}
	replaced, err := overlay.Write(r.root, filepath.Join(dir, "overlay"), patches...)
	if err != nil {
		return err
	}
	cut := len(command) - 1
	args := append(command[:cut:cut], "-overlay", replaced, "-o", file, command[cut])
	cmd := exec.CommandContext(r.ctx, "go", args...)
	cmd.Dir = r.root
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", cmd, err, out)
	}
	return nil
}

// run runs a program in a folder and says whether it ended with the exit code 1.
func (r *runner) run(ctx context.Context, folder, program string, args ...string) (failed bool, out, notes []byte, err error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = folder
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 20 * time.Second
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err = cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 1 {
		return true, stdout.Bytes(), stderr.Bytes(), nil
	}
	return false, stdout.Bytes(), stderr.Bytes(), err
}

// The seeds that the simulation tries: many, and for the unbroken build those
// that a broken one needs and more.
const (
	mutantSeeds   = 3000
	unbrokenSeeds = 300
)

var (
	seedLine      = regexp.MustCompile(`seed \d+ is number (\d+), after \S+ and (\d+) operations`)
	violationLine = regexp.MustCompile(`seed \d+, after .*`)
)

func (r *runner) simulate(m mutant, dir string) verdict {
	seam, err := overlay.Read(filepath.Join(r.root, "torture", "sim", "seam.patch"))
	if err != nil {
		return verdict{err: err}
	}
	binary := filepath.Join(dir, "sim.test")
	if err := r.build(m, dir, binary, []overlay.Patch{seam}, "test", "-c", "./torture/sim"); err != nil {
		return verdict{err: err}
	}
	seeds := mutantSeeds
	if m.patch.Text == nil {
		seeds = unbrokenSeeds
	}
	began := time.Now()
	failed, out, _, err := r.run(r.ctx, filepath.Join(r.root, "torture", "sim"), binary,
		"-test.run=^TestWhateverHappensThePromisesHold$", "-test.timeout="+r.limit.String(),
		fmt.Sprintf("-seed=%d", r.seed), fmt.Sprintf("-seeds=%d", seeds))
	v := verdict{caught: failed, took: time.Since(began), effort: fmt.Sprintf("%d seeds", seeds)}
	if err != nil {
		v.err = fmt.Errorf("the simulation ended by itself: %w\n%s", err, beginning(out))
	}
	if failed {
		found := seedLine.FindSubmatch(out)
		if found == nil {
			return verdict{err: fmt.Errorf("the simulation failed without a violation:\n%s", beginning(out))}
		}
		v.effort = fmt.Sprintf("%s seeds, %s operations", found[1], found[2])
		v.how = string(violationLine.Find(out))
	}
	return v
}

// turn is how long one run of the torture takes, its last 5 s without faults.
const turn = 15 * time.Second

func (r *runner) buildHarness() (string, error) {
	file := filepath.Join(r.dir, "torture")
	return file, r.build(mutant{}, r.dir, file, nil, "build", "./torture")
}

func (r *runner) torture(m mutant, dir string) verdict {
	harness, err := r.harness()
	if err != nil {
		return verdict{err: err}
	}
	worker := filepath.Join(dir, "worker")
	if err := r.build(m, dir, worker, []overlay.Patch{overlay.Clock()}, "build", "./torture"); err != nil {
		return verdict{err: err}
	}
	began := time.Now()
	v := verdict{}
	operations := 0
	for n := uint64(0); !v.caught && v.err == nil && time.Since(began) < r.limit; n++ {
		var done int
		v, done = r.turn(m, harness, worker, r.seed+n)
		operations += done
		if m.patch.Text == nil {
			break
		}
	}
	v.took = time.Since(began)
	v.effort = strconv.Itoa(operations) + " operations"
	return v
}

// turn runs the torture once, and returns how many operations it made.
func (r *runner) turn(m mutant, harness, worker string, seed uint64) (verdict, int) {
	failed, out, notes, err := r.run(r.ctx, r.root, harness, "-worker", worker, "-for", turn.String(),
		"-store", m.catcher.target, "-faults", m.catcher.detail, "-seed", strconv.FormatUint(seed, 10), "-json")
	if err != nil {
		return verdict{err: fmt.Errorf("the torture failed: %w\n%s", err, beginning(notes))}, 0
	}
	var document struct {
		Operations int
		Details    []struct{ Kind, Name, Text string }
	}
	if err := json.Unmarshal(out, &document); err != nil {
		return verdict{err: fmt.Errorf("the torture's document: %w\n%s", err, beginning(out))}, 0
	}
	v := verdict{caught: failed}
	if len(document.Details) > 0 {
		first := document.Details[0]
		v.how = fmt.Sprintf("%s of %s: %s", first.Kind, first.Name, first.Text)
	}
	return v, document.Operations
}

// testLimit is how long a test may take that takes no second with the build
// unbroken: one that hangs has found something.
const testLimit = 20 * time.Second

var failLine = regexp.MustCompile(`--- FAIL: (\S+)`)

func (r *runner) test(m mutant, dir string) verdict {
	binary := filepath.Join(dir, "package.test")
	if err := r.build(m, dir, binary, nil, "test", "-c", m.catcher.target); err != nil {
		return verdict{err: err}
	}
	began := time.Now()
	failed, out, notes, err := r.run(r.ctx, filepath.Join(r.root, m.catcher.target), binary,
		"-test.run="+m.catcher.detail, "-test.v", "-test.timeout="+min(r.limit, testLimit).String())
	v := verdict{caught: failed, took: time.Since(began), err: err, effort: "1 test"}
	switch found := failLine.FindAllSubmatch(out, -1); {
	case bytes.Contains(notes, []byte("panic: test timed out")) || bytes.Contains(out, []byte("panic: test timed out")):
		v.caught, v.err, v.how = true, nil, "it does not end"
	case failed && found == nil:
		v.err = fmt.Errorf("the tests failed, and not one test:\n%s", beginning(out))
	case failed:
		v.how = string(found[len(found)-1][1]) // the innermost
	case err != nil:
		v.err = fmt.Errorf("the test ended by itself: %w\n%s", err, beginning(out))
	case !bytes.Contains(out, []byte("--- PASS")):
		v.err = fmt.Errorf("no test of %s matches %s", m.catcher.target, m.catcher.detail)
	}
	return v
}

// beginning returns the first lines of an output.
func beginning(out []byte) string {
	const most = 2000
	return strings.TrimSpace(string(out[:min(len(out), most)]))
}
