// Package overlay changes sources for one build and leaves them as they are:
// patches are applied to copies, and the go command is told to build those. So
// the project's own code holds no trace of what the torture needs or breaks.
package overlay

import (
	"bufio"
	"bytes"
	_ "embed" // the patch
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Patch is a unified diff whose file names begin with a/ and b/ and are relative
// to the module's folder. Text before the first file is for people.
type Patch struct {
	Name string // for errors
	Text []byte
}

// WallOffset names the environment variable that a build with the patch Clock
// reads: the name of a file whose first 8 bytes are a count of nanoseconds, in
// the machine's byte order, by which the process's wall clock is off. The file is
// mapped, so that whoever writes it steps the clock of a process that runs.
const WallOffset = "HOLDFAST_WALL_OFFSET"

//go:embed clock.patch
var clock []byte

// Clock makes the wall clock of the root package one that can be stepped; see
// WallOffset. It is for Linux.
func Clock() Patch { return Patch{Name: "clock.patch", Text: clock} }

// Read reads a patch from a file.
func Read(file string) (Patch, error) {
	text, err := os.ReadFile(file)
	return Patch{Name: filepath.Base(file), Text: text}, err
}

// Root returns the folder of the module that the working directory belongs to.
func Root() (string, error) {
	out, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOMOD: %w", err)
	}
	file := strings.TrimSpace(string(out))
	if file == "" || file == os.DevNull {
		return "", errors.New("the working directory belongs to no module")
	}
	return filepath.Dir(file), nil
}

// Write applies the patches, one after the other, to copies in dir of the files
// of the module in root, and returns the name of the file for go build -overlay.
// Dir is created, and emptied if it exists. A patch that does not apply is an
// error that says which, in which file, and at which line.
func Write(root, dir string, patches ...Patch) (string, error) {
	root, dir, err := absolute(root, dir)
	if err != nil {
		return "", err
	}
	if err := os.RemoveAll(dir); err != nil {
		return "", err
	}
	sources := filepath.Join(dir, "_src") // a name that ./... passes over
	if err := os.MkdirAll(sources, 0o755); err != nil {
		return "", err
	}
	replace := map[string]string{}
	for _, patch := range patches {
		names, err := patch.files()
		if err != nil {
			return "", err
		}
		for _, name := range names {
			original, changed := filepath.Join(root, name), filepath.Join(sources, name)
			if replace[original] == "" {
				if err := copyFile(original, changed); err != nil {
					return "", fmt.Errorf("%s: %w", patch.Name, err)
				}
			}
			replace[original] = changed
		}
		if err := patch.apply(sources); err != nil {
			return "", err
		}
	}
	return writeJSON(filepath.Join(dir, "overlay.json"), replace)
}

func absolute(root, dir string) (string, string, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return "", "", err
	}
	dir, err = filepath.Abs(dir)
	return root, dir, err
}

// files returns the names of the files that the patch changes or adds.
func (p Patch) files() ([]string, error) {
	var names []string
	lines := bufio.NewScanner(bytes.NewReader(p.Text))
	for lines.Scan() {
		if name, ok := strings.CutPrefix(lines.Text(), "+++ b/"); ok {
			name, _, _ = strings.Cut(name, "\t")
			names = append(names, filepath.FromSlash(name))
		}
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("%s changes no file: no line begins with +++ b/", p.Name)
	}
	return names, lines.Err()
}

// copyFile copies a source, unless there is none: a patch may add it.
func copyFile(from, to string) error {
	text, err := os.ReadFile(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.WriteFile(to, text, 0o644)
}

// apply has git change the files. Git finds a hunk that has moved, and needs no
// repository: one that lies around dir must not be found.
func (p Patch) apply(dir string) error {
	cmd := exec.Command("git", "apply", "--whitespace=nowarn", "-")
	cmd.Dir = dir
	cmd.Stdin = bytes.NewReader(p.Text)
	cmd.Env = append(os.Environ(), "GIT_DIR=", "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir), "LC_ALL=C")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s does not apply: %w\n%s", p.Name, err, bytes.TrimSpace(out))
	}
	return nil
}

func writeJSON(file string, replace map[string]string) (string, error) {
	text, err := json.MarshalIndent(map[string]any{"Replace": replace}, "", "  ")
	if err != nil {
		return "", err
	}
	return file, os.WriteFile(file, append(text, '\n'), 0o644)
}
