package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/holdfastlock/holdfast/torture/report"
)

// result is what the torture found of a peer.
type result struct {
	peer
	report.Document
}

// root is the folder of holdfast, from that of this program.
const root = "../.."

// violated is the exit code of torture when it found violations.
const violated = 1

// compare tortures the peers one after the other and writes the table. A run that
// failed has no row.
func compare(ctx context.Context, p plan, to io.Writer) error {
	dir, err := os.MkdirTemp("", "peers-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	program := filepath.Join(dir, "torture")
	if err := build(ctx, program); err != nil {
		return err
	}
	var results []result
	var failures error
	for _, each := range p.peers {
		fmt.Fprintf(os.Stderr, "\n%s\n", each.name)
		document, err := torture(ctx, program, p, each)
		if err != nil {
			failures = errors.Join(failures, fmt.Errorf("%s: %w", each.name, err))
			continue
		}
		results = append(results, result{each, document})
	}
	return errors.Join(writeTable(to, p, results), failures)
}

// build makes the harness.
func build(ctx context.Context, program string) error {
	out, err := exec.CommandContext(ctx, "go", "build", "-C", root, "-o", program, "./torture").CombinedOutput()
	if err != nil {
		return fmt.Errorf("build of torture: %w\n%s", err, out)
	}
	return nil
}

// torture runs the harness on one peer.
func torture(ctx context.Context, program string, p plan, of peer) (report.Document, error) {
	args := []string{"-json", "-for", p.length.String(), "-seed", fmt.Sprint(p.seed), "-faults", p.faults}
	if p.keep != "" {
		keep, err := filepath.Abs(filepath.Join(p.keep, of.name))
		if err != nil {
			return report.Document{}, err
		}
		args = append(args, "-keep", keep)
	}
	if of.open != nil {
		self, err := os.Executable()
		if err != nil {
			return report.Document{}, err
		}
		args = append(args, "-worker", self, "-fenceless")
	}
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir, cmd.Env = root, append(os.Environ(), environment+"="+of.name)
	cmd.Stdout, cmd.Stderr = &out, os.Stderr
	// By an interrupt it ends its servers and workers.
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && (!errors.As(err, &exit) || exit.ExitCode() != violated) {
		return report.Document{}, err
	}
	var document report.Document
	err := json.Unmarshal(out.Bytes(), &document)
	return document, err
}
