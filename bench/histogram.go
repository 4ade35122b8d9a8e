package main

import (
	"math"
	"time"
)

// histogram counts times in classes, each 5 % wider than the one before it, from
// 1 µs on.
type histogram [330]int64 // the last class is at 10 s

const classWidth = 1.05

func (h *histogram) observe(ns int64) {
	class := 0
	if ns > 1000 {
		class = int(math.Log(float64(ns)/1000) / math.Log(classWidth))
	}
	h[min(class, len(h)-1)]++
}

func (h *histogram) add(other *histogram) {
	for i, n := range other {
		h[i] += n
	}
}

// quantile returns the time that the share q of all is not above, to 5 %; 0 if
// there is none.
func (h *histogram) quantile(q float64) time.Duration {
	var all, seen int64
	for _, n := range h {
		all += n
	}
	for class, n := range h {
		seen += n
		if n > 0 && float64(seen) >= q*float64(all) {
			return time.Duration(1000 * math.Pow(classWidth, float64(class+1)))
		}
	}
	return 0
}
