package main

import (
	"fmt"
	"slices"
	"strconv"
	"time"
)

// each returns a figure of every run.
func each[R any](runs []R, figure func(R) float64) []float64 {
	var all []float64
	for _, run := range runs {
		all = append(all, figure(run))
	}
	return all
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

func times(x float64) string { return fmt.Sprintf("%.2f ×", x) }

// milliseconds is the time with as many digits as matter.
func milliseconds(d time.Duration) string {
	ms := d.Seconds() * 1000
	if ms >= 10 {
		return thousands(ms) + " ms"
	}
	return fmt.Sprintf("%.2f ms", ms)
}
