package main

import (
	"fmt"
	"os/exec"
	"path/filepath"

	"github.com/holdfastlock/holdfast/torture/overlay"
)

// buildWorker builds this very program once more, with a wall clock that can be
// stepped, and returns its path. Flags are further ones of go build.
func buildWorker(dir string, flags ...string) (string, error) {
	root, err := overlay.Root()
	if err != nil {
		return "", fmt.Errorf("the worker is built from the sources; else give one by -worker: %w", err)
	}
	replaced, err := overlay.Write(root, filepath.Join(dir, "overlay"), overlay.Clock())
	if err != nil {
		return "", err
	}
	to := filepath.Join(dir, "worker")
	args := append([]string{"build", "-overlay", replaced, "-o", to}, flags...)
	cmd := exec.Command("go", append(args, "./torture")...)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build of the worker: %w\n%s", err, out)
	}
	return to, nil
}
