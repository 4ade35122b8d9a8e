package holdfastgocron

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

var goBlock = regexp.MustCompile("(?s)```go\n(.*?)```")

// TestTheReadmeShowsTheExecutedExamples: each block of Go stands in the file of
// the examples, indented or not.
func TestTheReadmeShowsTheExecutedExamples(t *testing.T) {
	examples := withoutIndent(read(t, "example_test.go"))
	blocks := goBlock.FindAllStringSubmatch(read(t, "README.md"), -1)
	if len(blocks) != 3 {
		t.Errorf("%d blocks of Go", len(blocks))
	}
	for _, block := range blocks {
		if !strings.Contains(examples, withoutIndent(block[1])) {
			t.Errorf("not in example_test.go:\n%s", block[1])
		}
	}
}

var indent = regexp.MustCompile(`(?m)^\t+`)

func withoutIndent(text string) string { return indent.ReplaceAllString(text, "") }

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
