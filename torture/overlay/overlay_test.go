package overlay

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// module writes a small module that prints what it is made of: one line of a
// source and one of an embedded file.
func module(t *testing.T) (root string) {
	root = t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module example.com/m\n\ngo 1.26\n",
		"main.go": `package main

import (
	_ "embed"
	"fmt"
)

//go:embed scripts/a.lua
var script string

func main() {
	fmt.Print(word(), " ", script)
}
`,
		"word.go":       "package main\n\n// one\n// two\n// three\n\nfunc word() string { return \"right\" }\n",
		"scripts/a.lua": "return 'right'\n",
	} {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

var (
	wrongWord = Patch{Name: "word.patch", Text: []byte(`The word is wrong.
diff --git a/word.go b/word.go
--- a/word.go
+++ b/word.go
@@ -4,4 +4,4 @@
 // two
 // three
 
-func word() string { return "right" }
+func word() string { return "wrong" }
`)}
	wrongBoth = Patch{Name: "both.patch", Text: []byte(`--- a/scripts/a.lua
+++ b/scripts/a.lua
@@ -1 +1 @@
-return 'right'
+return 'wrong'
--- a/word.go
+++ b/word.go
@@ -4,4 +4,4 @@
 // two
 // three
 
-func word() string { return "right" }
+func word() string { return twice() }
--- /dev/null
+++ b/twice.go
@@ -0,0 +1,3 @@
+package main
+
+func twice() string { return "wrong and new" }
`)}
	oneLineMore = Patch{Name: "more.patch", Text: []byte(`--- a/word.go
+++ b/word.go
@@ -1,3 +1,4 @@
 package main
 
+// zero
 // one
`)}
)

// run builds and runs the module with the patches.
func run(t *testing.T, root string, patches ...Patch) string {
	t.Helper()
	file, err := Write(root, t.TempDir(), patches...)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", "run", "-overlay", file, ".")
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return strings.TrimSpace(string(out))
}

func TestSourcesEmbeddedFilesAndNewFilesAreReplaced(t *testing.T) {
	root := module(t)
	if got := run(t, root, wrongBoth); got != "wrong and new return 'wrong'" {
		t.Errorf("the program printed %q", got)
	}
	if got := run(t, root); got != "right return 'right'" {
		t.Errorf("without a patch the program printed %q: the sources were changed", got)
	}
}

func TestPatchesComposeAndFindLinesThatHaveMoved(t *testing.T) {
	if got := run(t, module(t), oneLineMore, wrongWord); got != "wrong return 'right'" {
		t.Errorf("the program printed %q", got)
	}
}

func TestAPatchThatDoesNotApplyIsAnErrorThatSaysWhichAndWhere(t *testing.T) {
	_, err := Write(module(t), t.TempDir(), wrongWord, wrongBoth)
	if err == nil {
		t.Fatal("a patch was applied to a line that another patch has changed")
	}
	for _, want := range []string{"both.patch", "word.go:4"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not name %s: %v", want, err)
		}
	}
}

func TestAPatchThatChangesNothingIsAnError(t *testing.T) {
	if _, err := Write(module(t), t.TempDir(), Patch{Name: "empty.patch", Text: []byte("words\n")}); err == nil {
		t.Error("a patch without a file was taken")
	}
}

func TestAPatchAppliesInsideAnotherRepository(t *testing.T) {
	dir := t.TempDir()
	if out, err := exec.Command("git", "init", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	file, err := Write(module(t), filepath.Join(dir, "overlay"), wrongWord)
	if err != nil {
		t.Fatal(err)
	}
	var content struct{ Replace map[string]string }
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &content); err != nil {
		t.Fatal(err)
	}
	for _, changed := range content.Replace {
		if source, _ := os.ReadFile(changed); !strings.Contains(string(source), "wrong") {
			t.Errorf("%s was not changed:\n%s", changed, source)
		}
	}
}

func TestTheClockPatchLetsTheWallClockBeStepped(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the patch is for Linux")
	}
	root, err := Root()
	if err != nil {
		t.Fatal(err)
	}
	file, err := Write(root, t.TempDir(), Clock())
	if err != nil {
		t.Fatal(err)
	}
	offset := filepath.Join(t.TempDir(), "offset")
	if err := os.WriteFile(offset, make([]byte, 8), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", "run", "-overlay", file, "./testdata/step", offset)
	cmd.Env = append(os.Environ(), WallOffset+"="+offset)
	out, err := cmd.CombinedOutput()
	if err != nil || strings.TrimSpace(string(out)) != "renewed" {
		t.Errorf("%v, %s", err, out)
	}
}
