// Command manual writes the man pages and the completions of holdfast, from its
// commands and flags:
//
//	go run ./internal/manual DIR
//
// makes DIR/man/*.1 and DIR/completion/holdfast.bash, _holdfast (zsh) and
// holdfast.fish. The pages bear the date of SOURCE_DATE_EPOCH, so that the same
// source gives the same pages. It is a program of its own since holdfast would
// carry the writer of man pages around with it.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"

	"github.com/holdfastlock/holdfast/internal/command"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: manual DIR")
		os.Exit(64)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "manual:", err)
		os.Exit(1)
	}
}

// write makes all files below dir, and dir itself.
func write(dir string) error {
	const epoch = "SOURCE_DATE_EPOCH"
	seconds, err := strconv.ParseInt(os.Getenv(epoch), 10, 64)
	if err != nil {
		return errors.New("set " + epoch + " to the date of the pages, in seconds since 1970")
	}
	man, completion := filepath.Join(dir, "man"), filepath.Join(dir, "completion")
	for _, folder := range []string{man, completion} {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return err
		}
	}
	root := command.Tree()
	const withTexts = true
	return errors.Join(
		root.GenBashCompletionFileV2(filepath.Join(completion, "holdfast.bash"), withTexts),
		root.GenZshCompletionFile(filepath.Join(completion, "_holdfast")),
		root.GenFishCompletionFile(filepath.Join(completion, "holdfast.fish"), withTexts),
		writePages(root, man, time.Unix(seconds, 0).UTC()),
	)
}

// writePages writes one page for each command.
func writePages(root *cobra.Command, dir string, date time.Time) error {
	root.DisableAutoGenTag = true // it would have the date again
	showTypes(root)
	return doc.GenManTreeFromOpts(root, doc.GenManTreeOptions{
		Header: &doc.GenManHeader{Section: "1", Source: "holdfast", Manual: "User Commands", Date: &date},
		Path:   dir, CommandSeparator: "-",
	})
}

// showTypes lets the pages have --wait=duration|forever, and not --wait=0,
// where a flag has no default.
func showTypes(cmd *cobra.Command) {
	show := func(flag *pflag.Flag) {
		if flag.DefValue == "0" || flag.DefValue == "" && flag.Value.Type() != "string" {
			flag.DefValue = flag.Value.Type()
		}
	}
	cmd.LocalFlags().VisitAll(show)
	for _, child := range cmd.Commands() {
		showTypes(child)
	}
}
