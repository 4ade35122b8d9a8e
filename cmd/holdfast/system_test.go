package main

import (
	"errors"
	"os/exec"
	"sort"
	"strings"
	"syscall"
	"testing"
)

// TestACommandThatTheSystemHasNoRoomForLeavesItsSlot gives holdfast as many
// arguments as the system bears: the supervisor, which is given a few more, can't
// be started.
func TestACommandThatTheSystemHasNoRoomForLeavesItsSlot(t *testing.T) {
	t.Parallel()
	const step, enough = 64, 16 << 20 // bytes
	tooMuch := step * sort.Search(enough/step, func(n int) bool {
		return errors.Is(exec.Command("true", padding(n*step)...).Run(), syscall.E2BIG)
	})
	onBothStores(t, func(t *testing.T, url string) {
		var p *process
		err := error(syscall.E2BIG)
		for n := tooMuch; errors.Is(err, syscall.E2BIG); n -= step {
			p = prepare(url, append([]string{"run", "--slot", "night", lockName, "--", "true"}, padding(n)...)...)
			err = p.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		if got := p.code(t); got != 70 || !strings.Contains(p.stderr.String(), "the system can't start a process") {
			t.Errorf("ended with %d, want 70, and said %q", got, &p.stderr)
		}
		next := holdfast(t, url, "run", "--slot", "night", "--wait", "forever", lockName, "--", "sh", "-c", "exit 7")
		if got := next.code(t); got != 7 {
			t.Errorf("the next attempt ended with %d, want 7: %s", got, &next.stderr)
		}
	})
}

// padding returns arguments of n bytes in all, each of a length that the system
// bears.
func padding(n int) []string {
	const longest = 1 << 16
	var args []string
	for ; n > 0; n -= longest {
		args = append(args, strings.Repeat("x", min(n, longest)-1))
	}
	return args
}
