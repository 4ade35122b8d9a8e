package spec

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

const (
	// deepest is the longest path that is followed, in steps: far more than any.
	deepest = "-m100000"
	// memory is what one search may take, in MB.
	memory = "2000"
	// longest is how long one search may take.
	longest = 5 * time.Minute
)

// needSpin skips the test where spin or gcc is missing, unless in CI.
func needSpin(t *testing.T) {
	t.Helper()
	for _, tool := range []string{"spin", "gcc"} {
		if _, err := exec.LookPath(tool); err == nil {
			continue
		}
		text := tool + " is missing; on Debian and Ubuntu: apt-get install spin gcc libc6-dev"
		if os.Getenv("CI") != "" {
			t.Fatal(text)
		}
		t.Skip(text)
	}
}

// outcome is what a search has found.
type outcome struct {
	violated string   // the name of the assertion; empty if there is none
	steps    int      // to the violation
	states   int      // that were looked at
	timeline string   // to the violation
	unused   []string // the steps of the model that were never taken; not with a violation
}

func search(t *testing.T, v variant) (outcome, error) {
	dir := t.TempDir()
	if err := build(t, dir, v, memory); err != nil {
		return outcome{}, err
	}
	return run(t, dir, v, deepest)
}

// build makes the program that searches the model. A search for a violation is
// breadth first, so that the one found is the shortest; it needs more memory.
func build(t *testing.T, dir string, v variant, megabytes string) error {
	text, err := os.ReadFile(v.model)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, v.model), text, 0o600); err != nil {
		return err
	}
	if _, err := command(t, dir, "spin", append(flags(v), "-a", v.model)...); err != nil {
		return err
	}
	// Most of the time goes into compiling, hence -O0.
	args := []string{"-O0", "-w", "-DSAFETY", "-DNOFAIR", "-DMEMLIM=" + megabytes, "-o", "pan", "pan.c"}
	if v.violated != "" {
		args = append(args, "-DBFS")
	}
	_, err = command(t, dir, "gcc", args...)
	return err
}

func flags(v variant) []string {
	var flags []string
	for define := range strings.FieldsSeq(v.defines) {
		flags = append(flags, "-D"+define)
	}
	return flags
}

var (
	assertion = regexp.MustCompile(`assertion violated +!\(+(\w+)\)+ \(at depth (\d+)\)`)
	errorsOf  = regexp.MustCompile(`errors: (\d+)`)
	stored    = regexp.MustCompile(`(?m)^ *(\d+) states, stored`)
	unreached = regexp.MustCompile(`(?m)^\t.*\.pml:\d+, state \d+, .*`)
	cutShort  = regexp.MustCompile(`(?i)search depth too small|MEMLIM|out of memory|memory limit|hash table too small`)
)

// run runs the search. -E: a model may stop anywhere, since processes crash.
func run(t *testing.T, dir string, v variant, limits ...string) (outcome, error) {
	out, err := command(t, dir, "./pan", append(limits, "-E")...)
	if cutShort.MatchString(out) {
		return outcome{}, fmt.Errorf("the search was cut short:\n%s", out)
	}
	count, states := errorsOf.FindStringSubmatch(out), stored.FindStringSubmatch(out)
	if count == nil || states == nil {
		return outcome{}, fmt.Errorf("the search gave no answer: %w\n%s", err, out)
	}
	var found outcome
	found.states, _ = strconv.Atoi(states[1])
	for _, line := range unreached.FindAllString(out, -1) {
		if !strings.HasSuffix(line, `"-end-"`) { // the models have no end
			found.unused = append(found.unused, strings.TrimSpace(line))
		}
	}
	match := assertion.FindStringSubmatch(out)
	switch {
	case count[1] == "0" && err == nil && !strings.Contains(out, "Search not completed"):
		return found, nil
	case match == nil:
		return outcome{}, fmt.Errorf("an error that is not a violated assertion: %w\n%s", err, out)
	}
	found.violated = match[1]
	found.steps, _ = strconv.Atoi(match[2])
	found.timeline, err = timeline(t, dir, v)
	return found, err
}

// timeline replays the violation; what the model prints is the timeline.
func timeline(t *testing.T, dir string, v variant) (string, error) {
	out, err := command(t, dir, "spin", append(flags(v), "-t", "-T", v.model)...)
	lines, _, _ := strings.Cut(out, "spin: trail ends")
	if lines == "" {
		return "", fmt.Errorf("no timeline: %w\n%s", err, out)
	}
	return lines, nil
}

// command returns what the program wrote. Pan ends with 0 also when it has found
// a violation.
func command(t *testing.T, dir, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(t.Context(), longest)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		err = errors.Join(ctx.Err(), err)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w\n%s", cmd, err, out)
	}
	return string(out), err
}
