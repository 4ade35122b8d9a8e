package fence_test

import (
	"os/exec"
	"strings"
	"testing"
)

// A user of one kind of resource gets the libraries of no other.
func TestWhatNeedsNoLibraryImportsNone(t *testing.T) {
	const module = "github.com/holdfastlock/holdfast/"
	for _, folder := range []string{".", "./sqlfence", "./httpfence"} {
		list := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", folder)
		out, err := list.Output()
		if err != nil {
			t.Fatalf("%s: %v", list, err)
		}
		for _, dep := range strings.Fields(string(out)) {
			if !strings.HasPrefix(dep, module) {
				t.Errorf("%s depends on %s", folder, dep)
			}
		}
	}
}
