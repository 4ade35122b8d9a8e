package command

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/holdfastlock/holdfast/internal/supervise"
)

// scripts are the tests of the command's contract, by file name.
func scripts(t *testing.T) map[string]string {
	t.Helper()
	texts := map[string]string{}
	for _, pattern := range []string{"*.txtar", "*/*.txtar"} {
		paths, err := filepath.Glob(filepath.Join("../../cmd/holdfast/testdata/script", pattern))
		if err != nil || len(paths) == 0 {
			t.Fatalf("no %s (%v)", pattern, err)
		}
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			texts[filepath.Base(path)] = string(text)
		}
	}
	return texts
}

func TestEveryFlagOfRunHasAScriptWithItsEffectAndItsBadValues(t *testing.T) {
	texts := scripts(t)
	run, _, err := (&app{}).root().Find([]string{"run"})
	if err != nil {
		t.Fatal(err)
	}
	flags := run.LocalFlags()
	flags.AddFlagSet(run.InheritedFlags())
	flags.VisitAll(func(flag *pflag.Flag) {
		file := "flag_" + strings.ReplaceAll(flag.Name, "-", "_") + ".txtar"
		used := regexp.MustCompile(`(?m)^(code (\d+)|exec) holdfast run .*--` + flag.Name + `\b`)
		refused := regexp.MustCompile(`(?m)^stderr '.*--` + flag.Name + `\b`)
		good, bad := false, false
		for _, match := range used.FindAllStringSubmatch(texts[file], -1) {
			isUsage := match[2] == fmt.Sprint(codeUsage)
			good, bad = good || !isUsage, bad || isUsage
		}
		if !good || !bad || !refused.MatchString(texts[file]) {
			t.Errorf("--%s: %s does not have both its effect (%v) and a bad value (%v) that is refused by its name", flag.Name, file, good, bad)
		}
	})
}

func TestEveryExitCodeHasAScript(t *testing.T) {
	texts := scripts(t)
	for name, code := range exitCodes(t) {
		if !hasScript(texts, code) {
			t.Errorf("%s: no script exit_%s_*.txtar checks a code %[2]s", name, code)
		}
	}
}

// exitCodes returns all that exit.go names, and those of supervise.
func exitCodes(t *testing.T) map[string]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "exit.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	codes := map[string]string{
		"CodeNotExecutable": fmt.Sprint(supervise.CodeNotExecutable),
		"CodeNotFound":      fmt.Sprint(supervise.CodeNotFound),
		"success":           "0",
	}
	ast.Inspect(file, func(node ast.Node) bool {
		spec, ok := node.(*ast.ValueSpec)
		if !ok {
			return true
		}
		for i, value := range spec.Values {
			if number, ok := value.(*ast.BasicLit); ok && strings.HasPrefix(spec.Names[i].Name, "code") {
				codes[spec.Names[i].Name] = number.Value
			}
		}
		return true
	})
	if len(codes) < 10 {
		t.Fatalf("exit.go has the codes %v only", codes)
	}
	return codes
}

func hasScript(texts map[string]string, code string) bool {
	checks := regexp.MustCompile(`\bcode ` + code + `\b`)
	for file, text := range texts {
		if strings.HasPrefix(file, "exit_"+code+"_") && checks.MatchString(text) {
			return true
		}
	}
	return false
}

func TestTheHelpOfEveryCommandIsTested(t *testing.T) {
	help := scripts(t)["help.txtar"]
	for _, cmd := range (&app{}).root().Commands() {
		if !strings.Contains(help, "\nexec holdfast "+cmd.Name()+" --help\nstdout ") {
			t.Errorf("help.txtar has no holdfast %s --help", cmd.Name())
		}
	}
}
