// Package clockshim gives programs wall clocks that can be stepped while they
// run: a server by a small preloaded library, and a worker by the patch of
// package overlay. Both read the same kind of file.
package clockshim

import (
	_ "embed" // the source of the library
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

//go:embed preload/shim.c
var source []byte

// File holds by how much the clocks are off of the programs that were given
// its path. It may be used by many goroutines.
type File struct{ path string }

// Create makes the file; clocks are right at first.
func Create(path string) (File, error) {
	return File{path}, write(path, 0)
}

// Path returns the path of the file.
func (f File) Path() string { return f.path }

// Set makes the clocks show offset more than the right time, from now on.
func (f File) Set(offset time.Duration) error { return write(f.path, offset) }

// write puts the offset in its place in one step: a reader must not see half of
// it, nor an empty file.
func write(path string, offset time.Duration) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = file.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64(offset)), 0)
	return err
}

// Build compiles the library into dir with gcc and returns its path.
func Build(dir string) (string, error) {
	from, to := filepath.Join(dir, "shim.c"), filepath.Join(dir, "shim.so")
	if err := os.WriteFile(from, source, 0o600); err != nil {
		return "", err
	}
	out, err := exec.Command("gcc", "-shared", "-fPIC", "-O2", "-Wall", "-Wextra", "-Werror", "-o", to, from).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("the clock shim was not compiled, which takes gcc and libc6-dev: %w\n%s", err, out)
	}
	return to, nil
}

// Env returns the variables with which a program's clock follows the file.
// Library is what Build returned.
func (f File) Env(library string) []string {
	return []string{"LD_PRELOAD=" + library, "HOLDFAST_CLOCK_FILE=" + f.path}
}
