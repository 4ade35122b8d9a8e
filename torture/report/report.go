// Package report says what a torture run found: a table and a JSON document, and
// for a violation the piece of the history that shows it, as a timeline in text
// or as a picture.
package report

import (
	"encoding/json"
	"io"
	"time"

	"github.com/holdfastlock/holdfast/torture/check"
)

// Run is what a report must know of the run besides its history.
type Run struct {
	// Store is what was tortured, as "redis" or "sqlite".
	Store string `json:"store"`
	Seed  uint64 `json:"seed"`
	// Duration is how long clients worked.
	Duration time.Duration `json:"duration_ns"`
	// Versions of what took part, as "valkey": "9.1.0".
	Versions map[string]string `json:"versions"`
	// Command is what to type to see the same again.
	Command string `json:"command"`
}

// Document is the report as one JSON object. Times are in nanoseconds where the
// key ends with _ns.
type Document struct {
	Run
	Operations int `json:"operations"`
	// Unknown counts the operations of which nobody knows whether they happened.
	Unknown int `json:"unknown"`
	Tenures int `json:"tenures"`
	// Unfenced counts the tenures without a fence, of a store that has both.
	Unfenced int `json:"unfenced,omitempty"`
	// Faults and Violations count by kind; without any, they are empty.
	Faults     map[string]int `json:"faults"`
	Violations map[string]int `json:"violations"`
	// Details has the violations one by one.
	Details []check.Violation `json:"details"`
	// Losses are what the lock can't prevent, by the fault that caused it.
	Losses    []check.Loss  `json:"documented_losses"`
	Guarded   check.Updates `json:"guarded"`
	Unguarded check.Updates `json:"unguarded"`
	// Stored are resources in the store itself.
	Stored     map[string]*check.Updates `json:"stored,omitempty"`
	SlotsDone  int                       `json:"slots_done"`
	Attempts   int                       `json:"attempts"`
	Ordering   check.Ordering            `json:"ordering"`
	Recovery   time.Duration             `json:"longest_recovery_ns"`
	Recoveries int                       `json:"recoveries"`
}

// New makes the document of a run from what the checkers found.
func New(run Run, found check.Report) Document {
	d := Document{
		Run: run, Operations: found.Operations, Unknown: found.Unknown, Tenures: found.Tenures, Unfenced: found.Unfenced,
		Faults: found.Faults, Violations: map[string]int{},
		Details: found.Violations, Losses: found.Losses,
		Guarded: found.Guarded, Unguarded: found.Unguarded, Stored: found.Stored,
		SlotsDone: found.SlotsDone, Attempts: found.Attempts,
		Ordering: found.Ordering, Recovery: found.Recovery, Recoveries: found.Recoveries,
	}
	for _, v := range found.Violations {
		d.Violations[v.Kind]++
	}
	if d.Details == nil {
		d.Details = []check.Violation{}
	}
	if d.Losses == nil {
		d.Losses = []check.Loss{}
	}
	return d
}

// WriteJSON writes the document with a line break at its end.
func (d Document) WriteJSON(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(d)
}
