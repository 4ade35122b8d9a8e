package report

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/holdfastlock/holdfast/torture/check"
)

// shown is how many violations the table has in words.
const shown = 10

// WriteTable writes the document for people.
func (d Document) WriteTable(w io.Writer) error {
	var text strings.Builder
	d.heading(&text)
	d.figures(&text)
	d.faults(&text)
	d.losses(&text)
	d.violations(&text)
	_, err := io.WriteString(w, text.String())
	return err
}

func (d Document) heading(w *strings.Builder) {
	var versions []string
	for _, name := range slices.Sorted(maps.Keys(d.Versions)) {
		versions = append(versions, name+" "+d.Versions[name])
	}
	fmt.Fprintf(w, "%s for %v, seed %d\n", d.Store, d.Duration.Round(time.Second), d.Seed)
	if len(versions) > 0 {
		fmt.Fprintln(w, strings.Join(versions, ", "))
	}
	if d.Command != "" {
		fmt.Fprintln(w, d.Command)
	}
}

// figures writes what was done and checked.
func (d Document) figures(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name string, n int, format string, more ...any) {
		fmt.Fprintf(t, "%s\t%11s\t%s\n", name, number(n), fmt.Sprintf(format, more...))
	}
	fmt.Fprintln(t)
	row("operations", d.Operations, "%s with unknown outcome", number(d.Unknown))
	row("tenures", d.Tenures, "leases granted")
	if d.Unfenced > 0 {
		row("", d.Unfenced, "of them without a fence")
	}
	row("slots", d.SlotsDone, "done, attempts: %s", number(d.Attempts))
	row("guarded writes", d.Guarded.Writes, "%s lost, %s refused as stale", number(d.Guarded.Lost), number(d.Guarded.Refused))
	row("unguarded writes", d.Unguarded.Writes, "%s lost (the control)", number(d.Unguarded.Lost))
	for _, name := range slices.Sorted(maps.Keys(d.Stored)) {
		row("writes of "+name, d.Stored[name].Writes, "%s lost", number(d.Stored[name].Lost))
	}
	row("put in order", d.Ordering.Operations, "operations, pieces: %s", number(d.Ordering.Pieces))
	row(`answers "held"`, d.Ordering.Held, "%s of them can't be judged", number(d.Ordering.Excused))
	fmt.Fprintf(t, "longest recovery\t%11v\tof %s times that a name was wanted and free\n", brief(d.Recovery), number(d.Recoveries))
	if n := d.Ordering.Undecided; n > 0 {
		row("NOT CHECKED", n, "pieces could not be put in order in time, or their fences went back")
	}
	_ = t.Flush() // the builder takes everything
}

func (d Document) faults(w io.Writer) {
	total := 0
	for _, n := range d.Faults {
		total += n
	}
	fmt.Fprintf(w, "\n%s faults of %d kinds\n", number(total), len(d.Faults))
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, kind := range slices.Sorted(maps.Keys(d.Faults)) {
		fmt.Fprintf(t, "  %s\t%6s\n", kind, number(d.Faults[kind]))
	}
	_ = t.Flush()
}

// losses writes a sentence for each kind of fault that loses data.
func (d Document) losses(w io.Writer) {
	if len(d.Losses) == 0 {
		return
	}
	fmt.Fprintln(w, "\ndocumented losses: what no lock in such a store can prevent")
	for _, l := range d.Losses {
		fmt.Fprintf(w, "  %s: %d of %d gave two holders", l.Fault, l.TwoHolders, l.Times)
		if l.Overlaps > 0 {
			fmt.Fprintf(w, " (overlaps: %d, the longest %v)", l.Overlaps, brief(l.Longest))
		}
		if l.SlotsAgain > 0 {
			fmt.Fprintf(w, "; slots begun again: %d", l.SlotsAgain)
		}
		if l.WritesGone > 0 {
			fmt.Fprintf(w, "; acknowledged writes gone: %d", l.WritesGone)
		}
		fmt.Fprintf(w, "; fences not larger: %d; stale writes accepted with the fence: %d\n", l.FencesBack, l.StaleWrites)
	}
}

func (d Document) violations(w io.Writer) {
	fmt.Fprintf(w, "\n%s violations\n", number(len(d.Details)))
	for _, kind := range slices.Sorted(maps.Keys(d.Violations)) {
		fmt.Fprintf(w, "  %s: %s\n", kind, number(d.Violations[kind]))
	}
	for i, v := range d.Details {
		if i == shown {
			fmt.Fprintf(w, "  … and %s more\n", number(len(d.Details)-shown))
			return
		}
		fmt.Fprintf(w, "  %d. %s\n", i+1, describe(v))
	}
}

func describe(v check.Violation) string { return v.Kind + ", " + v.Name + ": " + v.Text }

// brief rounds a time to what people read.
func brief(d time.Duration) time.Duration {
	if d < time.Millisecond {
		return d.Round(time.Microsecond)
	}
	return d.Round(time.Millisecond)
}

// number writes n with a comma before each three digits.
func number(n int) string {
	digits := strconv.Itoa(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
