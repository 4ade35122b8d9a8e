package main

import (
	"fmt"
	"strings"
	"time"
)

// ratio is one figure of the line that make bench-quick ends with.
type ratio struct {
	Name  string
	Value float64
}

// ratios returns them all, or nil if something that they need was not measured.
func (r *report) ratios() []ratio {
	all := r.ownRatios()
	all = append(all, r.oneKeyRatios()...)
	all = append(all, r.procsRatios()...)
	all = append(all, r.keepaliveRatios()...)
	if len(all) != ratioCount {
		return nil
	}
	return all
}

const ratioCount = 11

func (r *report) ownRatios() []ratio {
	var all []ratio
	for _, goroutines := range []int{1, 64, 1024} {
		best := bestOwn(r.Own, goroutines)
		name := fmt.Sprint("own", goroutines)
		if best > 0 {
			all = r.ownRatio(all, name, "holdfast-unfenced", goroutines, best)
		}
		if best > 0 && goroutines > 1 {
			all = r.ownRatio(all, name+"_fenced", "holdfast", goroutines, best)
		}
	}
	return all
}

// ownRatio appends the ratio of the library, if that was measured.
func (r *report) ownRatio(all []ratio, name, library string, goroutines int, best float64) []ratio {
	for _, o := range r.Own {
		if o.Library == library && o.Goroutines == goroutines {
			all = append(all, ratio{name, o.pairs() / best})
		}
	}
	return all
}

// bestOwn returns the pairs a second of the best peer; 0 if there is none.
func bestOwn(results []ownResult, goroutines int) (best float64) {
	for _, o := range results {
		if o.Peer && o.Goroutines == goroutines {
			best = max(best, o.pairs())
		}
	}
	return best
}

// contended returns our result in a contest, and those of the peers; nil if
// there is none.
func (r *report) contended(ours, workload string, goroutines int, section time.Duration) (us *contendedResult, peers []contendedResult) {
	for _, c := range r.Contended {
		if c.Contest.Workload != workload || c.Contest.Goroutines != goroutines || c.Contest.Section != section {
			continue
		}
		if c.Library == ours {
			us = &c
		}
		if lib, err := find(c.Library); err == nil && lib.peer {
			peers = append(peers, c)
		}
	}
	return us, peers
}

// toBest divides our median of a figure, one of so much a second, by the best
// peer's; a peer that did it less than once a second counts as one that did.
func (c contendedResult) toBest(peers []contendedResult, figure func(contendedRun) float64) float64 {
	best := 1.0
	for _, peer := range peers {
		best = max(best, peer.median(figure))
	}
	return c.median(figure) / best
}

func (r *report) oneKeyRatios() []ratio {
	us, peers := r.contended("holdfast", "onekey", 16, 0)
	if us == nil || len(peers) == 0 {
		return nil
	}
	return []ratio{
		{"onekey16", us.toBest(peers, contendedRun.acquisitions)},
		{"onekey16_handoffs", us.toBest(peers, contendedRun.handOffs)},
		{"jain16", us.median(func(r contendedRun) float64 { return r.Jain })},
	}
}

func (r *report) procsRatios() []ratio {
	us, peers := r.contended("holdfast-nopassing", "procs", 8, 0)
	if us == nil || len(peers) == 0 {
		return nil
	}
	return []ratio{
		{"procs8", us.toBest(peers, contendedRun.fromOthers)},
		{"procs8_cmds", us.median(contendedRun.sentEach)},
	}
}

func (r *report) keepaliveRatios() []ratio {
	var us, peer float64
	for _, k := range r.Keepalive {
		switch k.Library {
		case "holdfast":
			us = k.CPU.Seconds() / k.Hold.Seconds()
		case "rueidislock":
			peer = k.CPU.Seconds() / k.Hold.Seconds()
		}
	}
	if us == 0 || peer == 0 {
		return nil
	}
	return []ratio{{"keepalive_cpu", us / peer}}
}

// ratiosLine is the line, with its end; empty if there is none.
func ratiosLine(all []ratio) string {
	if all == nil {
		return ""
	}
	parts := []string{"ratios"}
	for _, r := range all {
		parts = append(parts, fmt.Sprintf("%s=%.2f", r.Name, r.Value))
	}
	return strings.Join(parts, " ") + "\n"
}
