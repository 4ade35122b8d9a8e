package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfastlock/holdfast/torture/overlay"
)

// fewest is how many mutants there must be at the least.
const fewest = 12

func TestEachMutantSaysWhatIsBrokenAndAppliesWithWhatItsCatcherNeeds(t *testing.T) {
	root, err := overlay.Root()
	if err != nil {
		t.Fatal(err)
	}
	mutants, err := readMutants("patches")
	if err != nil {
		t.Fatal(err)
	}
	if len(mutants) < fewest {
		t.Errorf("there are %d mutants, want %d at the least", len(mutants), fewest)
	}
	seam, err := overlay.Read(filepath.Join(root, "torture", "sim", "seam.patch"))
	if err != nil {
		t.Fatal(err)
	}
	broken := map[string]string{}
	for _, m := range mutants {
		if other := broken[m.broken+m.catcher.String()]; other != "" {
			t.Errorf("%s says of itself what %s says", m.name, other)
		}
		broken[m.broken+m.catcher.String()] = m.name
		before := map[string]overlay.Patch{"simulation": seam, "torture": overlay.Clock()}[m.catcher.kind]
		patches := []overlay.Patch{m.patch}
		if before.Text != nil {
			patches = []overlay.Patch{before, m.patch}
		}
		if _, err := overlay.Write(root, t.TempDir(), patches...); err != nil {
			t.Error(err)
		}
	}
}

func TestAMutantThatSaysTooLittleIsAnError(t *testing.T) {
	for name, text := range map[string]string{
		"nothing broken":    "Caught by: simulation\n",
		"nothing to catch":  "Broken: all\n",
		"unknown catcher":   "Broken: all\nCaught by: luck\n",
		"torture of faults": "Broken: all\nCaught by: torture redis\n",
		"test of a package": "Broken: all\nCaught by: test ./once\n",
	} {
		file := filepath.Join(t.TempDir(), "x.patch")
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if m, err := readMutant(file); err == nil {
			t.Errorf("%s: read as %+v", name, m)
		}
	}
}

func TestTheEndOfAMutantIsToldApart(t *testing.T) {
	broken := mutant{name: "x", patch: overlay.Patch{Text: []byte("text")}}
	for _, c := range []struct {
		mutant  mutant
		verdict verdict
		word    string
	}{
		{broken, verdict{caught: true}, "caught"},
		{broken, verdict{}, "SURVIVED"},
		{broken, verdict{caught: true, err: errors.New("no build")}, "FAILED"},
		{mutant{name: "unbroken"}, verdict{}, "passed"},
		{mutant{name: "unbroken"}, verdict{caught: true}, "VIOLATED"},
	} {
		line := c.mutant.line(c.verdict)
		if word, _, _ := strings.Cut(line, " "); word != c.word {
			t.Errorf("%+v is shown as %q, want %s", c.verdict, line, c.word)
		}
	}
}
