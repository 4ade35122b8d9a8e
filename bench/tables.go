package main

import (
	"fmt"
	"strings"
	"time"
)

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

func (r *report) writeOwn(b *strings.Builder, what string, results []ownResult) {
	if results == nil {
		return
	}
	fmt.Fprintf(b, "\n%s: %d repetitions of %v, taking turns; median (lowest – highest).\n\n", what, r.plan.reps, r.plan.duration)
	b.WriteString("| goroutines | what | pairs a second | of the best peer's | client CPU a pair | server CPU a pair | allocations a pair | commands a pair: sent, run | overlaps |\n")
	b.WriteString("|---|---|---|---|---|---|---|---|---|\n")
	for _, o := range results {
		ofBest := "–"
		if best := bestOwn(results, o.Goroutines); best > 0 {
			ofBest = times(o.pairs() / best)
		}
		fmt.Fprintf(b, "| %d | %s | %s | %s | %.1f µs | %.1f µs | %.0f, %.0f bytes | %s, %s | %d |\n", o.Goroutines, o.Library,
			spread(each(o.Runs, func(r ownRun) float64 { return r.PairsPerSecond }), thousands), ofBest,
			median(each(o.Runs, func(r ownRun) float64 { return float64(r.CPUPerPair.Nanoseconds()) }))/1000,
			median(each(o.Runs, func(r ownRun) float64 { return float64(r.ServerPerPair.Nanoseconds()) }))/1000,
			median(each(o.Runs, func(r ownRun) float64 { return r.AllocsPerPair })),
			median(each(o.Runs, func(r ownRun) float64 { return r.BytesPerPair })),
			short(median(each(o.Runs, func(r ownRun) float64 { return r.SentPerPair }))),
			short(median(each(o.Runs, func(r ownRun) float64 { return r.AllPerPair }))),
			o.overlaps())
	}
}

// pairs is the median of the pairs a second.
func (o ownResult) pairs() float64 {
	return median(each(o.Runs, func(r ownRun) float64 { return r.PairsPerSecond }))
}

func (o ownResult) overlaps() (n int64) {
	for _, run := range o.Runs {
		n += run.Overlaps
	}
	return n
}

func (r *report) writeContended(b *strings.Builder) {
	if r.Contended == nil {
		return
	}
	fmt.Fprintf(b, "\nOne key for all: %d repetitions of %v, taking turns; median (lowest – highest), but the longest wait of all.\n\n",
		r.plan.reps, r.Contended[0].Contest.Duration)
	b.WriteString("| processes × goroutines, section | what | acquisitions a second | hand-offs a second | between processes | commands sent for an acquisition, a hand-off | Jain's index: goroutines, processes | longest wait | hand-off p50, p99 | overlaps |\n")
	b.WriteString("|---|---|---|---|---|---|---|---|---|---|\n")
	for _, c := range r.Contended {
		fmt.Fprintf(b, "| %d × %d, %s | %s | %s | %s | %s | %.2f, %.2f | %.3f, %.3f | %s | %s, %s | %d |\n",
			c.Contest.Processes, c.Contest.Goroutines, sectionText(c.Contest.Section), c.Library,
			c.spread(contendedRun.acquisitions), c.spread(contendedRun.handOffs), c.spread(contendedRun.fromOthers),
			c.median(contendedRun.sentEach), c.median(contendedRun.sentEachHandOff),
			c.median(func(r contendedRun) float64 { return r.Jain }),
			c.median(func(r contendedRun) float64 { return r.JainOfAll }),
			milliseconds(c.longest()),
			milliseconds(time.Duration(c.median(func(r contendedRun) float64 { return float64(r.P50) }))),
			milliseconds(time.Duration(c.median(func(r contendedRun) float64 { return float64(r.P99) }))),
			c.overlaps())
	}
}

func sectionText(d time.Duration) string {
	if d == 0 {
		return "empty"
	}
	return d.String()
}

func (c contendedResult) median(figure func(contendedRun) float64) float64 {
	return median(each(c.Runs, figure))
}

func (c contendedResult) spread(figure func(contendedRun) float64) string {
	return spread(each(c.Runs, figure), thousands)
}

// longest is the longest wait of all repetitions.
func (c contendedResult) longest() (most time.Duration) {
	for _, run := range c.Runs {
		most = max(most, run.Longest)
	}
	return most
}

func (c contendedResult) overlaps() (n int64) {
	for _, run := range c.Runs {
		n += run.Overlaps
	}
	return n
}

func (r *report) writeKeepalive(b *strings.Builder) {
	if r.Keepalive == nil {
		return
	}
	first := r.Keepalive[0]
	fmt.Fprintf(b, "\n%s leases, TTL %v, kept alive for %.0f s:\n\n", thousands(float64(first.Leases)), first.TTL, first.Hold.Seconds())
	b.WriteString("| what | commands a second: sent, run | goroutines before, and at the most | memory of the client: heap and stacks | memory of the server | client CPU | leases lost |\n")
	b.WriteString("|---|---|---|---|---|---|---|\n")
	for _, k := range r.Keepalive {
		seconds := k.Hold.Seconds()
		fmt.Fprintf(b, "| %s | %s, %s | %d, %s | %.1f MB, %.0f bytes each | %.0f bytes each | %.2f s | %d |\n", k.Library,
			thousands(float64(k.Sent)/seconds), thousands(float64(k.All)/seconds),
			k.GoroutinesBefore, thousands(float64(k.GoroutinesWhile)),
			k.Memory/1e6, k.Memory/float64(k.Leases), k.ServerMemory/float64(k.Leases), k.CPU.Seconds(), k.Lost)
	}
}

func (r *report) writeLimit(b *strings.Builder) {
	if r.Limit == nil {
		return
	}
	fmt.Fprintf(b, "\nThe server's own rate by redis-benchmark, %d connections with %d requests each under way, and each acquire of a name that it has not seen before:\n\n", limitConnections, limitPipeline)
	b.WriteString("| command | a second |\n|---|---|\n")
	for _, l := range r.Limit {
		fmt.Fprintf(b, "| %s | %s |\n", l.What, thousands(l.PerSecond))
	}
}
