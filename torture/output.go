package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/holdfastlock/holdfast/torture/check"
	"github.com/holdfastlock/holdfast/torture/history"
	"github.com/holdfastlock/holdfast/torture/report"
)

// carryOut runs, checks and reports.
func carryOut(ctx context.Context, o options, out output, stdout, stderr io.Writer) (violated bool, err error) {
	result, err := torture(ctx, o)
	if err != nil {
		return false, err
	}
	if out.keep != "" {
		if err := keepHistory(out.keep, result.events); err != nil {
			return false, err
		}
	}
	o.log("checking %d events", len(result.events))
	found := check.Check(result.events, o.rules())
	violated = len(found.Violations) > 0
	if idle := result.idle(o.workers); !violated && idle != nil {
		return false, idle
	}
	document := report.New(report.Run{
		Store: o.store, Seed: o.seed, Duration: o.length, Versions: result.versions, Command: out.command,
	}, found)
	if out.json {
		err = document.WriteJSON(stdout)
	} else {
		err = document.WriteTable(stdout)
	}
	if err == nil && violated {
		notes := stdout
		if out.json {
			notes = stderr
		}
		err = showViolations(o, out.keep, notes, result.events, found.Violations)
	}
	return violated, err
}

// idle is an error if there is a worker that never had a lock: a run in which
// nothing was done finds nothing.
func (r result) idle(workers int) error {
	had := make(map[string]bool)
	for _, e := range r.events {
		if e.Kind == history.Return && e.Do == history.Acquire && e.Outcome == history.OK {
			name, _, _ := strings.Cut(e.Process, ".") // of all its incarnations
			had[name] = true
		}
	}
	for n := 1; n <= workers; n++ {
		if name := workerName(n); !had[name] {
			return fmt.Errorf("worker %s never had a lock: too little was done to judge", name)
		}
	}
	return nil
}

// keepHistory writes all events, one a line.
func keepHistory(dir string, events []history.Event) error {
	return keepFile(dir, "history.jsonl", func(to io.Writer) error {
		buffered := bufio.NewWriter(to)
		writer := history.NewWriter(buffered)
		for _, e := range events {
			if err := writer.Add(e); err != nil {
				return err
			}
		}
		return buffered.Flush()
	})
}

// showViolations draws the first violation as text, and each as a picture if
// there is a folder for them.
func showViolations(o options, keep string, to io.Writer, events []history.Event, violations []check.Violation) error {
	timeline := report.NewTimeline(events, violations[0])
	if err := timeline.WriteText(to); err != nil {
		return err
	}
	if keep == "" {
		o.log("give -keep FOLDER for the history, and a picture of each violation")
		return nil
	}
	for i, v := range violations[:min(len(violations), mostPictures)] {
		name := fmt.Sprintf("violation%d.svg", i+1)
		if err := keepFile(keep, name, report.NewTimeline(events, v).WriteSVG); err != nil {
			return err
		}
	}
	o.log("see %s", filepath.Join(keep, "violation1.svg"))
	return nil
}

// mostPictures is how many violations are drawn: the first ones explain the
// others.
const mostPictures = 20

func keepFile(dir, name string, write func(io.Writer) error) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	file, err := os.Create(filepath.Join(dir, name))
	if err != nil {
		return err
	}
	return errors.Join(write(file), file.Close())
}
