package goredis

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestTheReadmeShowsTheExecutedExample: its block of Go stands in the file of
// the example, indented or not.
func TestTheReadmeShowsTheExecutedExample(t *testing.T) {
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(read(t, "README.md"), -1)
	if len(blocks) != 1 || !strings.Contains(withoutIndent(read(t, "example_test.go")), withoutIndent(blocks[0][1])) {
		t.Errorf("%d blocks of Go, or not in example_test.go: %q", len(blocks), blocks)
	}
}

func withoutIndent(text string) string {
	return regexp.MustCompile(`(?m)^\t+`).ReplaceAllString(text, "")
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
