package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.uber.org/goleak"

	"github.com/holdfastlock/holdfast/internal/command"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// generate writes all files and returns their folder.
func generate(t *testing.T) string {
	t.Helper()
	t.Setenv("SOURCE_DATE_EPOCH", "86400")
	dir := t.TempDir()
	if err := write(dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

// commands returns the command and all below it, by the names of their pages.
func commands(root *cobra.Command) map[string]*cobra.Command {
	all := map[string]*cobra.Command{strings.ReplaceAll(root.CommandPath(), " ", "-"): root}
	for _, child := range root.Commands() {
		for name, cmd := range commands(child) {
			all[name] = cmd
		}
	}
	return all
}

func TestEachCommandHasAPage(t *testing.T) {
	pages, err := os.ReadDir(filepath.Join(generate(t), "man"))
	if err != nil {
		t.Fatal(err)
	}
	var got, want []string
	for _, page := range pages {
		got = append(got, page.Name())
	}
	for name := range commands(command.Tree()) {
		want = append(want, name+".1")
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) || !slices.Contains(got, "holdfast-run.1") || !slices.Contains(got, "holdfast-completion-bash.1") {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestManShowsThePagesWithEveryFlag(t *testing.T) {
	if exec.Command("man", "--version").Run() != nil {
		t.Skip("no man here")
	}
	dir := generate(t)
	for name, cmd := range commands(command.Tree()) {
		show := exec.Command("man", "--warnings", "--no-hyphenation", "-P", "cat", "-l", filepath.Join(dir, "man", name+".1"))
		show.Env = append(os.Environ(), "MANWIDTH=200", "LC_ALL=C")
		var warnings bytes.Buffer
		show.Stderr = &warnings
		text, err := show.Output()
		if err != nil || warnings.Len() > 0 {
			t.Errorf("%s: %v: %s", show, err, &warnings)
		}
		if !bytes.Contains(text, []byte(name+" - "+cmd.Short)) {
			t.Errorf("%s does not say what the command does:\n%s", name, text)
		}
		cmd.Flags().VisitAll(func(flag *pflag.Flag) {
			if !bytes.Contains(text, []byte("--"+flag.Name)) {
				t.Errorf("%s does not have --%s", name, flag.Name)
			}
		})
	}
}

func TestTheSameSourceGivesTheSameFiles(t *testing.T) {
	first, second := generate(t), generate(t)
	if out, err := exec.Command("diff", "-r", first, second).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	page, err := os.ReadFile(filepath.Join(first, "man", "holdfast.1"))
	if err != nil || !bytes.Contains(page, []byte(`"Jan 1970"`)) || bytes.Contains(page, []byte("HISTORY")) {
		t.Errorf("the page does not have the date it was given, and only that: %v\n%s", err, page)
	}
	t.Setenv("SOURCE_DATE_EPOCH", "")
	if err := write(t.TempDir()); err == nil {
		t.Error("without a date it would write that of today")
	}
}
