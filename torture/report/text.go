package report

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// widestLane is the largest width of a lane, in characters.
const widestLane = 42

// WriteText draws the timeline with characters: a bar in a lane where a lease is
// trusted, a wavy line where the process is disturbed.
func (t *Timeline) WriteText(w io.Writer) error {
	widths := t.widths()
	var text strings.Builder
	fmt.Fprintf(&text, "%s\n\n%14s", t.title, "")
	for lane, name := range t.lanes {
		text.WriteString("  " + fit(name, widths[lane]))
	}
	for _, r := range t.rows {
		fmt.Fprintf(&text, "\n%14s", t.since(r))
		for lane, width := range widths {
			text.WriteString("  " + fit(r.cell(lane), width))
		}
		if r.twoHolders() {
			text.WriteString("  ◀ two holders")
		}
	}
	lines := strings.Split(text.String(), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimRight(line, " ")
	}
	_, err := io.WriteString(w, strings.Join(lines, "\n")+"\n")
	return err
}

// widths returns the width of each lane: that of its longest text.
func (t *Timeline) widths() []int {
	widths := make([]int, len(t.lanes))
	for lane, name := range t.lanes {
		widths[lane] = utf8.RuneCountInString(name)
		for _, r := range t.rows {
			widths[lane] = max(widths[lane], utf8.RuneCountInString(r.cell(lane)))
		}
		widths[lane] = min(widths[lane], widestLane)
	}
	return widths
}

// cell is what a row has in one lane.
func (r row) cell(lane int) string {
	sign := " "
	switch {
	case r.after[lane] > 0:
		sign = "┃"
	case r.hit[lane]:
		sign = "≀"
	}
	switch {
	case lane != r.lane:
		return sign
	case r.bad:
		return sign + "✗ " + r.text
	default:
		return sign + "• " + r.text
	}
}

// fit cuts or fills a text to that many characters.
func fit(text string, width int) string {
	n := utf8.RuneCountInString(text)
	if n > width {
		return string([]rune(text)[:width-1]) + "…"
	}
	return text + strings.Repeat(" ", width-n)
}
