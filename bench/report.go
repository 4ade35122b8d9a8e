package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// report is everything that was measured.
type report struct {
	Machine  machine
	Commands []commandsResult `json:",omitempty"`
	Pairs    []pairsResult    `json:",omitempty"`
	Held     *heldResult      `json:",omitempty"`

	plan plan
}

func (r *report) print(out io.Writer) error {
	if !r.plan.json {
		_, err := io.WriteString(out, r.markdown())
		return err
	}
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(r)
}

// sound returns an error if a lock did not do what it is for: then no figure
// counts.
func (r *report) sound() error {
	for _, p := range r.Pairs {
		if n := p.overlaps(); n > 0 {
			return fmt.Errorf("%s: %d times a key had two holders", p.Adapter, n)
		}
	}
	if r.Held != nil && r.Held.Lost > 0 {
		return fmt.Errorf("%d leases were lost", r.Held.Lost)
	}
	return nil
}

func (r *report) markdown() string {
	var b strings.Builder
	m := r.Machine
	fmt.Fprintf(&b, "%s · %s, %d cores · %s · Go %s · Redis %s · rueidis %s · load when it began %s\n",
		m.Date, m.CPU, m.Cores, m.System, m.Go, m.Redis, m.Rueidis, m.Load)
	r.writeCommands(&b)
	r.writePairs(&b)
	r.writeHeld(&b)
	return b.String()
}

func (r *report) writeCommands(b *strings.Builder) {
	if r.Commands == nil {
		return
	}
	fmt.Fprintf(b, "\n| operation | round trips | sent by the client | run by its scripts | time with %v a round trip |\n", turnLag)
	b.WriteString("|---|---|---|---|---|\n")
	for _, c := range r.Commands {
		each := c.Took / time.Duration(c.Reps)
		fmt.Fprintf(b, "| %s | %s | %s | %s | %.1f ms |\n", c.Operation,
			short(float64(c.RoundTrips)/float64(c.Reps)), c.Sent.each(c.Reps), c.Inner.each(c.Reps),
			each.Seconds()*1000)
	}
}

func (r *report) writePairs(b *strings.Builder) {
	if r.Pairs == nil {
		return
	}
	fmt.Fprintf(b, "\n%d repetitions of %v, taking turns; median (lowest – highest).\n\n", r.plan.reps, r.plan.duration)
	b.WriteString("| goroutines | what | pairs a second | of the bare client's | client CPU a pair | server CPU a pair | allocations a pair | overlaps |\n")
	b.WriteString("|---|---|---|---|---|---|---|---|\n")
	for _, p := range r.Pairs {
		ratio := "–"
		if p.Ratios != nil {
			ratio = spread(p.Ratios, func(x float64) string { return fmt.Sprintf("%.0f %%", x*100) })
		}
		fmt.Fprintf(b, "| %d | %s | %s | %s | %.1f µs | %.1f µs | %.0f, %.0f bytes | %d |\n", p.Goroutines, p.Adapter,
			spread(p.each(func(r pairsRun) float64 { return r.PairsPerSecond }), thousands), ratio,
			median(p.each(func(r pairsRun) float64 { return float64(r.CPUPerPair.Nanoseconds()) }))/1000,
			median(p.each(func(r pairsRun) float64 { return float64(r.ServerPerPair.Nanoseconds()) }))/1000,
			median(p.each(func(r pairsRun) float64 { return r.AllocsPerPair })),
			median(p.each(func(r pairsRun) float64 { return r.BytesPerPair })),
			p.overlaps())
	}
}

func (p pairsResult) each(of func(pairsRun) float64) []float64 {
	var all []float64
	for _, run := range p.Runs {
		all = append(all, of(run))
	}
	return all
}

func (p pairsResult) overlaps() (n int64) {
	for _, run := range p.Runs {
		n += run.Overlaps
	}
	return n
}

func (r *report) writeHeld(b *strings.Builder) {
	h := r.Held
	if h == nil {
		return
	}
	seconds := h.Hold.Seconds()
	sent := h.Counts["evalsha"] + h.Counts["eval"] + h.Counts["ping"]
	inner := -sent
	for _, n := range h.Counts {
		inner += n
	}
	row := func(what, format string, args ...any) {
		fmt.Fprintf(b, "| %s | %s |\n", what, fmt.Sprintf(format, args...))
	}
	fmt.Fprintf(b, "\n| %s leases, TTL %v, kept alive for %.0f s | |\n|---|---|\n", thousands(float64(h.Leases)), h.TTL, seconds)
	row("memory of the client for each", "%.0f bytes", h.HeapPerLease)
	row("memory of the server for each", "%.0f bytes", h.ServerPerLease)
	row("leases extended a second", "%s", thousands(float64(h.Extended)/seconds))
	row("commands that the client sent a second", "%s", short(float64(sent)/seconds))
	row("commands that its scripts ran a second", "%s", thousands(float64(inner)/seconds))
	row("goroutines before, and at the most", "%d, %d", h.GoroutinesBefore, h.GoroutinesWhile)
	row("client CPU", "%.2f s, %.1f %% of one core", h.CPU.Seconds(), h.CPU.Seconds()/seconds*100)
	row("extensions that failed and were tried again", "%d", h.ExtendFailed)
	row("leases lost", "%d", h.Lost)
}

// spread is the median and the range.
func spread(values []float64, text func(float64) string) string {
	return fmt.Sprintf("%s (%s – %s)", text(median(values)), text(slices.Min(values)), text(slices.Max(values)))
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// thousands is the number without a fraction, with commas.
func thousands(x float64) string {
	digits := strconv.FormatFloat(x, 'f', 0, 64)
	for at := len(digits) - 3; at > 0; at -= 3 {
		digits = digits[:at] + "," + digits[at:]
	}
	return digits
}
