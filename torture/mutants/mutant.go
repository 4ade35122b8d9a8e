package main

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/holdfastlock/holdfast/torture/overlay"
)

// mutant is one way in which holdfast is broken.
type mutant struct {
	name    string
	broken  string
	catcher catcher
	patch   overlay.Patch // empty: nothing is broken
}

// catcher is what must catch a mutant.
type catcher struct {
	kind   string // simulation, torture or test
	target string // of the torture: the store; of a test: the package
	detail string // of the torture: the kinds of faults; of a test: the regular expression
}

// String returns the catcher as a header has it.
func (c catcher) String() string {
	return strings.TrimSpace(c.kind + " " + strings.TrimSpace(c.target+" "+c.detail))
}

// control returns the catcher that the unbroken build has to pass.
func (c catcher) control() catcher {
	if c.kind == "torture" {
		c.detail = "lossless"
	}
	return c
}

// The lines of a header.
const (
	brokenLine = "Broken: "
	caughtLine = "Caught by: "
)

func readMutants(dir string) ([]mutant, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.patch"))
	if err != nil {
		return nil, err
	}
	var mutants []mutant
	for _, file := range files {
		m, err := readMutant(file)
		if err != nil {
			return nil, err
		}
		mutants = append(mutants, m)
	}
	return mutants, nil
}

func readMutant(file string) (mutant, error) {
	patch, err := overlay.Read(file)
	if err != nil {
		return mutant{}, err
	}
	m := mutant{name: strings.TrimSuffix(patch.Name, ".patch"), patch: patch}
	for line := range strings.Lines(string(patch.Text)) {
		line = strings.TrimSpace(line)
		if text, ok := strings.CutPrefix(line, brokenLine); ok {
			m.broken = text
		}
		if text, ok := strings.CutPrefix(line, caughtLine); ok {
			m.catcher.kind, text, _ = strings.Cut(text, " ")
			m.catcher.target, m.catcher.detail, _ = strings.Cut(text, " ")
		}
	}
	if m.broken == "" {
		return m, fmt.Errorf("%s: no line begins with %q", patch.Name, brokenLine)
	}
	return m, m.catcher.check(patch.Name)
}

func (c catcher) check(name string) error {
	complete := c.target != "" && c.detail != ""
	switch {
	case c.kind == "simulation" && c.target == "":
		return nil
	case c.kind == "torture" && complete, c.kind == "test" && complete:
		return nil
	default:
		return fmt.Errorf("%s: %q says neither simulation, nor torture STORE FAULTS, nor test PACKAGE REGEXP", name, caughtLine)
	}
}
