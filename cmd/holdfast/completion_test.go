package main

import (
	"os/exec"
	"strings"
	"testing"
)

// completer is a bash that completes its arguments, without the package
// bash-completion, which would find the words of the line.
const completer = `
source <(holdfast completion bash) || exit 1
_get_comp_words_by_ref() {
	words=("${COMP_WORDS[@]}") cword=$COMP_CWORD
	cur=${words[cword]} prev=${words[cword-1]}
}
compopt() { :; }
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMP_LINE="$*" COMP_POINT=${#COMP_LINE} COMP_TYPE=9
__start_holdfast
echo "${COMPREPLY[@]}"`

func TestBashCompletesCommandsFlagsAndTheirValues(t *testing.T) {
	if exec.Command("bash", "-c", "true").Run() != nil {
		t.Skip("no bash here")
	}
	for line, want := range map[string]string{
		"holdfast ru":                  "run runs",
		"holdfast rel":                 "release",
		"holdfast run --max-":          "--max-runtime --max-attempts",
		"holdfast run job --orphans r": "release",
		"holdfast ls --output n":       "name",
		"holdfast show --st":           "--store",
		"holdfast show n":              "",
		"holdfast run n -- ls --st":    "",
	} {
		words := append([]string{"-c", completer, "bash"}, strings.Split(line, " ")...)
		out, err := exec.Command("bash", words...).CombinedOutput()
		if got := strings.TrimSpace(string(out)); err != nil || got != want {
			t.Errorf("%s: got %q, %v; want %q", line, got, err, want)
		}
	}
}

func TestFilesAreOfferedForTheCommandAndNotForANameOfALock(t *testing.T) {
	const files, noFiles = ":0", ":4" // what the shell is told to do
	for line, want := range map[string]string{
		"show n":                  noFiles,
		"show n m":                noFiles,
		"run n":                   noFiles,
		"run n --on-lost ":        noFiles,
		"run n --config ":         files,
		"run n -- ./r":            files,
		"run n --ttl 1 -- cat ./": files,
	} {
		out, err := exec.Command("holdfast", append([]string{"__complete"}, strings.Split(line, " ")...)...).Output()
		if err != nil || !strings.HasSuffix(string(out), want+"\n") {
			t.Errorf("%s: got %s, %v; want %s", line, out, err, want)
		}
	}
}
