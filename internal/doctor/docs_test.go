package doctor

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestEveryCheckIsInTheDocumentation(t *testing.T) {
	text, err := os.ReadFile("../../docs/doctor.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := make(map[string]bool)
	for _, row := range regexp.MustCompile(`(?m)^\| ([a-z, -]+) \|`).FindAllStringSubmatch(string(text), -1) {
		for _, check := range strings.Split(row[1], ", ") {
			documented[check] = true
		}
	}
	sources, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	said := regexp.MustCompile(`\.(?:ok|unseen)\("([a-z-]+)"|\.add\([a-zA-Z.]+, "([a-z-]+)"|check(?:, [a-z]+)? :?= "([a-z-]+)"`)
	found := 0
	for _, name := range sources {
		source, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range said.FindAllStringSubmatch(string(source), -1) {
			found++
			if check := match[1] + match[2] + match[3]; !documented[check] {
				t.Errorf("%s: the check %s is not in docs/doctor.md", name, check)
			}
		}
	}
	if found < 50 {
		t.Errorf("found %d checks only", found)
	}
}
