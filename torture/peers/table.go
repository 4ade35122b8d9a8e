package main

import (
	"fmt"
	"io"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/holdfastlock/holdfast/torture/check"
)

// writeTable writes the results as Markdown.
func writeTable(to io.Writer, p plan, results []result) error {
	var text strings.Builder
	fmt.Fprintf(&text, "%s, seed %d, %v each, TTL 1 s, 4 workers of 8 clients.\n", time.Now().UTC().Format(time.DateOnly), p.seed, p.length)
	if len(results) > 0 {
		fmt.Fprintf(&text, "%s.\n", versions(results[0].Versions))
	}
	fmt.Fprintf(&text, "Faults: %s.\n\n", strings.ReplaceAll(p.faults, ",", ", "))
	text.WriteString("| library | version | faults | operations | tenures | overlaps | longest | overlaps by a documented loss | longest | keys left | stalls | longest recovery | unguarded updates lost | guarded updates lost |\n")
	text.WriteString("|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n")
	for _, r := range results {
		text.WriteString(r.row())
	}
	text.WriteByte('\n')
	for _, r := range results {
		fmt.Fprintf(&text, "- **%s**: %s. Believed: %s.\n", r.name, r.settings, r.belief)
	}
	_, err := io.WriteString(to, text.String())
	return err
}

func versions(of map[string]string) string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(of)) {
		list = append(list, name+" "+of[name])
	}
	return strings.Join(list, ", ")
}

func (r result) row() string {
	faults := 0
	for _, n := range r.Faults {
		faults += n
	}
	overlaps, longest := 0, time.Duration(0)
	for _, v := range r.Details {
		if v.Kind == check.Exclusion {
			overlaps, longest = overlaps+1, max(longest, v.Overlap)
		}
	}
	lossOverlaps, lossLongest := 0, time.Duration(0)
	for _, l := range r.Losses {
		lossOverlaps, lossLongest = lossOverlaps+l.Overlaps, max(lossLongest, l.Longest)
	}
	guarded := "no fence"
	if r.open == nil {
		guarded = fmt.Sprintf("%d of %d", r.Guarded.Lost, r.Guarded.Writes)
	}
	return fmt.Sprintf("| %s | %s | %d | %d | %d | %d | %s | %d | %s | %d | %d | %s | %d of %d | %s |\n",
		r.name, version(r.module), faults, r.Operations, r.Tenures, overlaps, brief(longest), lossOverlaps, brief(lossLongest),
		r.Violations[check.LeftBehind], r.Violations[check.Progress], brief(r.Recovery),
		r.Unguarded.Lost, r.Unguarded.Writes, guarded)
}

// version returns the version of a module that this program was built with.
func version(module string) string {
	info, _ := debug.ReadBuildInfo() // without: unknown
	for _, dependency := range info.Deps {
		if dependency.Path == module && dependency.Replace == nil {
			return dependency.Version
		}
	}
	return "this tree"
}

// brief rounds a time to what people read; there is none if it is 0.
func brief(d time.Duration) string {
	switch {
	case d == 0:
		return "–"
	case d < time.Millisecond:
		return d.Round(time.Microsecond).String()
	default:
		return d.Round(time.Millisecond).String()
	}
}
