package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// asFirst runs holdfast as the first process of a PID namespace, as a container
// does.
func asFirst(t *testing.T, command ...string) *process {
	t.Helper()
	return asFirstWith(t, []string{"--pid", "--fork", "--mount-proc"}, command...)
}

func asFirstWith(t *testing.T, unshare []string, command ...string) *process {
	t.Helper()
	const store = "--store=sqlite://"
	if err := exec.Command("unshare", append(unshare, "true")...).Run(); err != nil {
		t.Skipf("no PID namespaces here: %v", err)
	}
	args := append(unshare, "holdfast", "run", store+filepath.Join(t.TempDir(), "locks.db"), lockName, "--")
	p := &process{Cmd: exec.Command("unshare", append(args, command...)...)}
	p.Stderr = &p.stderr
	return p
}

func TestAsFirstProcessTheCodesAreRight(t *testing.T) {
	for script, want := range map[string]int{
		"exit 7":                               7,
		"kill -TERM $$":                        143,
		"kill -KILL $$":                        137,
		"sleep 0.01 & (sleep 0.02 &); exit 9":  9,
		"holdfast run inner -- sh -c 'exit 4'": 4,
		"(setsid sleep 1000 &); exit 11":       11,
	} {
		p := asFirst(t, "sh", "-c", script)
		if err := p.Start(); err != nil {
			t.Fatal(err)
		}
		if got := p.code(t); got != want {
			t.Errorf("%s: ended with %d, want %d: %s", script, got, want, &p.stderr)
		}
	}
}

func TestTheProcessTableOfAnotherNamespaceIsNotBelieved(t *testing.T) {
	// In it our own number belongs to another process.
	p := asFirstWith(t, []string{"--pid", "--fork"}, "sh", "-c", "(setsid sleep 1000 &); exit 5")
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	if got := p.code(t); got != 5 || !strings.Contains(p.stderr.String(), "still running") {
		t.Errorf("ended with %d, want 5, and said %q", got, &p.stderr)
	}
}

func TestAsFirstProcessItReapsWhatItsCommandLeaves(t *testing.T) {
	// A process that nobody waits for stays in the table.
	const script = `
		for n in 1 2 3 4 5 6 7 8 9; do (sleep 0.01 &); done
		while cat /proc/[0-9]*/stat | grep -q "(sleep)"; do :; done
		echo clean`
	p := asFirst(t, "sh", "-c", script)
	out, err := p.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) || strings.TrimSpace(string(out)) != "clean" {
		t.Errorf("got %q, %v: %s", out, err, &p.stderr)
	}
}

func TestATermToTheFirstProcessReachesTheCommand(t *testing.T) {
	dir := t.TempDir()
	p := asFirst(t, "sh", "-c", "trap 'exit 21' TERM; echo 1 >"+dir+"/ready; while :; do sleep 0.05; done")
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	if err := until(func() bool { return exists(dir + "/ready") }); err != nil {
		t.Fatal(err)
	}
	children, err := os.ReadFile("/proc/" + strconv.Itoa(p.Process.Pid) + "/task/" + strconv.Itoa(p.Process.Pid) + "/children")
	if err != nil {
		t.Fatal(err)
	}
	first, err := strconv.Atoi(strings.TrimSpace(string(children)))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(first, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if got := p.code(t); got != 21 {
		t.Errorf("ended with %d, want 21: %s", got, &p.stderr)
	}
}
