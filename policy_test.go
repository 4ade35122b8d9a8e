package holdfast_test

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	module = "github.com/holdfastlock/holdfast"

	maxFileLines     = 400
	maxFunctionLines = 60
	maxRootNames     = 40
)

func TestTheCoreImportsOnlyTheStandardLibrary(t *testing.T) {
	for _, goos := range []string{"linux", "darwin"} {
		cmd := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", ".", "./driver")
		cmd.Env = append(os.Environ(), "GOOS="+goos, "CGO_ENABLED=0")
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s: %v\n%s", cmd, err, &stderr)
		}
		for _, dep := range strings.Fields(string(out)) {
			if dep != module && dep != module+"/driver" && !strings.HasPrefix(dep, module+"/internal/") {
				t.Errorf("on %s the root package or driver depends on %s", goos, dep)
			}
		}
	}
}

func TestEveryPackageHasOnePackageComment(t *testing.T) {
	commented := map[string][]string{} // by folder
	for _, src := range goSources(t) {
		folder := path.Dir(src.name)
		files := commented[folder]
		if text := src.file.Doc.Text(); text != "" {
			files = append(files, src.name)
			if want := "Package " + src.file.Name.Name + " "; src.file.Name.Name != "main" && !strings.HasPrefix(text, want) {
				t.Errorf("%s: the package comment does not begin with %q", src.name, want)
			}
		}
		commented[folder] = files
	}
	for folder, files := range commented {
		if len(files) != 1 {
			t.Errorf("package in %s has %d package comments, want one: %v", folder, len(files), files)
		}
	}
}

func TestEveryScriptHasItsHeader(t *testing.T) {
	const scripts = "redisstore/scripts/*.lua"
	names, err := filepath.Glob(scripts)
	if err != nil || len(names) == 0 {
		t.Fatalf("no %s found: %v", scripts, err)
	}
	for _, name := range names {
		header := leadingComments(readFile(t, name))
		for _, want := range []string{"-- KEYS", "-- ARGV", "-- returns"} {
			if !slices.ContainsFunc(header, func(line string) bool { return strings.HasPrefix(line, want) }) {
				t.Errorf("%s: no line in its header begins with %q", name, want)
			}
		}
	}
}

// leadingComments returns the comment lines before the first line of Lua code.
func leadingComments(script string) []string {
	lines := strings.Split(script, "\n")
	end := slices.IndexFunc(lines, func(line string) bool { return line != "" && !strings.HasPrefix(line, "--") })
	if end < 0 {
		return lines
	}
	return lines[:end]
}

func TestFilesAndFunctionsAreSmall(t *testing.T) {
	for _, src := range goSources(t) {
		if lines := src.fset.File(src.file.FileStart).LineCount(); lines >= maxFileLines {
			t.Errorf("%s has %d lines, want fewer than %d", src.name, lines, maxFileLines)
		}
		for _, decl := range src.file.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok {
				continue
			}
			if lines := src.line(fn.End()) - src.line(fn.Pos()) + 1; lines >= maxFunctionLines {
				t.Errorf("%s:%d: %s has %d lines, want fewer than %d",
					src.name, src.line(fn.Pos()), fn.Name.Name, lines, maxFunctionLines)
			}
		}
	}
}

func TestTheRootPackageIsSmall(t *testing.T) {
	var names []string
	for _, src := range goSources(t) {
		if path.Dir(src.name) == "." {
			names = append(names, exportedNames(src.file)...)
		}
	}
	if len(names) >= maxRootNames {
		t.Errorf("the root package exports %d names, want fewer than %d: %v", len(names), maxRootNames, names)
	}
}

// exportedNames returns the exported names declared at the top level, methods
// not included.
func exportedNames(file *ast.File) []string {
	var idents []*ast.Ident
	for _, decl := range file.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			if decl.Recv == nil {
				idents = append(idents, decl.Name)
			}
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					idents = append(idents, spec.Name)
				case *ast.ValueSpec:
					idents = append(idents, spec.Names...)
				}
			}
		}
	}
	var names []string
	for _, ident := range idents {
		if ident.IsExported() {
			names = append(names, ident.Name)
		}
	}
	return names
}

// machinePath matches a path that exists only on somebody's machine. A URL or
// an import path has a letter before the slash and does not match.
var machinePath = regexp.MustCompile(`(^|[^\w.~-])(/(home|Users|root|work)/\w|[A-Z]:\\Users\\)`)

func TestNoFileNamesAPathOfOneMachine(t *testing.T) {
	for _, name := range projectFiles(t) {
		text := readFile(t, name)
		if strings.ContainsRune(text, 0) {
			continue // not a text
		}
		for i, line := range strings.Split(text, "\n") {
			if machinePath.MatchString(line) {
				t.Errorf("%s:%d: %s", name, i+1, strings.TrimSpace(line))
			}
		}
	}
}

// goBlock matches a block of Go in the README, with the marker that stands
// directly before it, if there is one.
var goBlock = regexp.MustCompile("(?s)(?:<!-- example: (\\w+) -->\\s*)?```go\n(.*?)```")

func TestTheReadmeShowsTheExecutedExamples(t *testing.T) {
	bodies := exampleBodies(t, "example_test.go")
	blocks := goBlock.FindAllStringSubmatch(readFile(t, "README.md"), -1)
	if len(blocks) == 0 {
		t.Fatal("README.md has no block of Go")
	}
	for _, block := range blocks {
		name, got := block[1], strings.TrimSpace(block[2])
		if name == "" {
			t.Errorf("README.md: no line <!-- example: ExampleName --> before this block:\n%s", got)
			continue
		}
		body, ok := bodies[name]
		if !ok {
			t.Errorf("README.md shows %s, which is not in example_test.go", name)
			continue
		}
		want, executed := withoutOutput(body)
		if !executed {
			t.Errorf("%s has no // Output: and so is never executed", name)
		}
		if got != want {
			t.Errorf("README.md, %s: %s\nput this there:\n```go\n%s\n```", name, firstDifference(got, want), want)
		}
	}
}

// exampleBodies returns what stands between the braces of each example in the
// file, one level of indentation removed.
func exampleBodies(t *testing.T, name string) map[string]string {
	t.Helper()
	src := parse(t, name)
	text := readFile(t, name)
	bodies := map[string]string{}
	for _, decl := range src.file.Decls {
		if fn, ok := decl.(*ast.FuncDecl); ok && strings.HasPrefix(fn.Name.Name, "Example") {
			body := text[src.fset.Position(fn.Body.Lbrace).Offset+1 : src.fset.Position(fn.Body.Rbrace).Offset]
			bodies[fn.Name.Name] = strings.TrimSpace(strings.ReplaceAll(body, "\n\t", "\n"))
		}
	}
	return bodies
}

// outputComment matches the comment at the end of an example that makes go test
// execute it.
var outputComment = regexp.MustCompile(`(?is)(^|\n)\s*//\s*(unordered )?output:.*$`)

func withoutOutput(body string) (code string, executed bool) {
	at := outputComment.FindStringIndex(body)
	if at == nil {
		return body, false
	}
	return strings.TrimSpace(body[:at[0]]), true
}

func firstDifference(got, want string) string {
	gotLines, wantLines := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i, line := range wantLines {
		if i >= len(gotLines) {
			return fmt.Sprintf("line %d is missing: %q", i+1, line)
		}
		if gotLines[i] != line {
			return fmt.Sprintf("line %d is %q, in the example it is %q", i+1, gotLines[i], line)
		}
	}
	return fmt.Sprintf("line %d is not in the example: %q", len(wantLines)+1, gotLines[len(wantLines)])
}

// source is one parsed file of Go.
type source struct {
	name string
	fset *token.FileSet
	file *ast.File
}

func (s source) line(pos token.Pos) int { return s.fset.Position(pos).Line }

// goSources returns the project's Go files, for every system, without the tests.
func goSources(t *testing.T) []source {
	t.Helper()
	var sources []source
	for _, name := range projectFiles(t) {
		if strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") {
			sources = append(sources, parse(t, name))
		}
	}
	return sources
}

func parse(t *testing.T, name string) source {
	t.Helper()
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	return source{name, fset, file}
}

// projectFiles returns the regular files of the project, by slash-separated
// names relative to its root. It does not ask git, which refuses a clone that
// belongs to another user.
func projectFiles(t *testing.T) []string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && (name == "bin" || name != "." && name != ".ci" && entry.Name()[0] == '.') {
			return filepath.SkipDir
		}
		if entry.Type().IsRegular() {
			names = append(names, filepath.ToSlash(name))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
