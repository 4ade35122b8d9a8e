package check

import (
	"cmp"
	"slices"
	"time"

	"github.com/holdfastlock/holdfast/torture/history"
)

// The kinds of the faults that end a process at once, and that freeze it.
const (
	Kill = "SIGKILL"
	Stop = "SIGSTOP"
)

// Rules are what the checkers must know of the run.
type Rules struct {
	// TTL is the longest time for which a store keeps a lease that nothing
	// extends: the largest TTL in use. A lock delay comes to it.
	TTL time.Duration
	// Linger is how long a request can be on its way to a server: the delay of
	// the proxy and the time of the client's repetitions, or by how much a
	// server's clock is set back, which keeps what it has for longer.
	Linger time.Duration
	// Recovery is how long a name that is wanted may stay without a holder when
	// no server is disturbed: the TTL of a dead holder and its lock delay, the
	// claim of a dead waiter (2 s), and what a machine under load needs.
	Recovery time.Duration
	// Losses are the kinds of faults that make a server forget leases, or end
	// them early: they excuse two holders.
	Losses []string
	// ClockBack are the kinds of faults that set a server's clock back. Together
	// with a loss they excuse fences that do not grow.
	ClockBack []string
	// Fenceless says that the library has no fences, and may have no deadlines: a
	// peer. What only fences show is not checked, and two holders do not count
	// while one of them is frozen.
	Fenceless bool
	// InStore begins the names of resources that are kept in the store itself.
	// Empty: there are none.
	InStore string
	// Forgets are the kinds of faults by which the store loses writes to them that
	// it has acknowledged, with its other data.
	Forgets []string
	// PieceLimit is how long porcupine may think about one piece of a history;
	// 10 s if it is 0.
	PieceLimit time.Duration
}

// The kinds of violations.
const (
	Exclusion       = "exclusion"       // two leases of one name were trusted at once
	Linearizability = "linearizability" // no order of the operations explains the answers
	Fence           = "fence"           // a fence is missing, repeated, or does not grow
	LostUpdate      = "lost update"     // a guarded write was overwritten unread
	StaleWrite      = "stale write"     // a guarded resource took a fence older than one it had seen
	MissingWrite    = "missing write"   // a write was acknowledged and is not at the resource
	Confirm         = "confirm"         // a lease was confirmed that was over, or while another held the name
	Slot            = "slot"            // a slot was done twice, or by an attempt that was cut off
	Progress        = "progress"        // a name was free and wanted for too long
	LeftBehind      = "left behind"     // something is at the store that nobody needs
	Malformed       = "malformed"       // the history contradicts itself: the harness is wrong
)

// Violation is one thing that a correct lock can't have done.
type Violation struct {
	Kind string `json:"kind"`
	// Name is the lock, job, resource or key concerned.
	Name string `json:"name"`
	Text string `json:"text"`
	// From and To are the piece of the history that shows it, on its clock.
	From int64 `json:"from"`
	To   int64 `json:"to"`
	// Processes are those that took part.
	Processes []string `json:"processes,omitempty"`
	// Overlap is for how long two leases were trusted at once.
	Overlap time.Duration `json:"overlap_ns,omitempty"`
}

// Loss is what the faults of one kind did that no lock can prevent.
type Loss struct {
	Fault string `json:"fault"`
	// Times is how often the fault happened, TwoHolders how many of those were
	// followed by two holders of a name.
	Times      int `json:"times"`
	TwoHolders int `json:"two_holders"`
	// Overlaps counts pairs of leases, and Longest is the longest of them.
	Overlaps int           `json:"overlaps"`
	Longest  time.Duration `json:"longest_ns"`
	// SlotsAgain counts attempts at slots that were done already, or whose
	// number had been used.
	SlotsAgain int `json:"slots_again"`
	// FencesBack counts grants whose fence was not larger than an earlier one;
	// none, unless a clock was set back too.
	FencesBack int `json:"fences_back"`
	// StaleWrites counts what a guarded resource accepted with a fence smaller
	// than one before. These are violations.
	StaleWrites int `json:"stale_writes"`
	// WritesGone counts acknowledged writes to resources in the store that are
	// not there; see Rules.Forgets.
	WritesGone int `json:"writes_gone"`
}

// Updates counts the writes that resources accepted, and those of them that
// were overwritten by somebody who had not read them.
type Updates struct {
	Writes int `json:"writes"`
	Lost   int `json:"lost"`
	// Refused counts the touches and writes that were refused as stale.
	Refused int `json:"refused"`
}

// Ordering is what porcupine looked at.
type Ordering struct {
	Operations int `json:"operations"`
	Pieces     int `json:"pieces"`
	// Undecided counts the pieces for which the time did not suffice, or whose
	// fences went back as documented: they are not checked.
	Undecided int `json:"undecided"`
	// Held counts the answers "held"; Excused are those of them that can't be
	// judged: no client surely held the name, but an acquire without an answer
	// may have, or the answer was that of another call of its process.
	Held    int `json:"held"`
	Excused int `json:"held_excused"`
}

// Report is what Check found.
type Report struct {
	Operations int `json:"operations"`
	// Unknown counts the operations of which nobody knows whether they happened.
	Unknown int `json:"unknown"`
	// Tenures counts the leases that were granted, Unfenced those of them that
	// were asked for without a fence.
	Tenures    int            `json:"tenures"`
	Unfenced   int            `json:"unfenced"`
	Faults     map[string]int `json:"faults"`
	Violations []Violation    `json:"violations"`
	Losses     []Loss         `json:"losses"`
	Guarded    Updates        `json:"guarded"`
	Unguarded  Updates        `json:"unguarded"`
	// Stored has the same for the resources in the store; see Rules.InStore. The
	// key is the folder of the name.
	Stored map[string]*Updates `json:"stored,omitempty"`
	// SlotsDone counts the slots that were done, Attempts those that were begun.
	SlotsDone int      `json:"slots_done"`
	Attempts  int      `json:"attempts"`
	Ordering  Ordering `json:"ordering"`
	// Recovery is the longest time for which a name was wanted and had no holder,
	// while no server was disturbed; Recoveries counts such times.
	Recovery   time.Duration `json:"longest_recovery_ns"`
	Recoveries int           `json:"recoveries"`
}

// Check judges a history, whose events may come in any order. A fault that lasts
// must be healed before its end. The order of the violations is that of their
// beginnings.
func Check(events []history.Event, rules Rules) Report {
	if rules.PieceLimit == 0 {
		rules.PieceLimit = 10 * time.Second
	}
	c := &checker{rules: rules, record: read(events, rules), losses: map[string]*Loss{}, fencesBack: map[string]bool{}}
	c.count()
	c.exclusion()
	if !rules.Fenceless {
		c.fences()
		c.confirmations()
		c.ordering()
	}
	c.resources()
	c.slots()
	c.progress()
	c.leftBehind()
	return c.finish()
}

// checker gathers the report of one history.
type checker struct {
	rules  Rules
	record *record
	report Report
	losses map[string]*Loss // by kind of fault
	// fencesBack has the names whose fences did not grow, as documented.
	fencesBack map[string]bool
}

func (c *checker) count() {
	c.report.Tenures = len(c.record.leases)
	c.report.Faults = map[string]int{}
	for _, op := range c.record.operations {
		c.report.Operations++
		if op.unknown() {
			c.report.Unknown++
		}
	}
	for _, l := range c.record.leases {
		if l.unfenced {
			c.report.Unfenced++
		}
	}
	for _, f := range c.record.faults {
		c.report.Faults[f.kind]++
		if f.loses {
			c.loss(f).Times++
		}
	}
	for _, e := range c.record.malformed {
		c.violation(Malformed, e.Name, e.At, e.At, "an event belongs to nothing: "+string(e.Kind)+" "+string(e.Do), e.Process)
	}
}

func (c *checker) leftBehind() {
	for _, e := range c.record.left {
		c.violation(LeftBehind, e.Name, e.At, e.At, "found after the run: "+e.Note, e.Process)
	}
}

// loss returns the row of the fault's kind.
func (c *checker) loss(f *fault) *Loss {
	l := c.losses[f.kind]
	if l == nil {
		l = &Loss{Fault: f.kind}
		c.losses[f.kind] = l
	}
	return l
}

func (c *checker) violation(kind, name string, from, to int64, text string, processes ...string) {
	slices.Sort(processes)
	c.report.Violations = append(c.report.Violations, Violation{
		Kind: kind, Name: name, Text: text, From: from, To: to,
		Processes: slices.DeleteFunc(slices.Compact(processes), func(p string) bool { return p == "" }),
	})
}

func (c *checker) finish() Report {
	slices.SortStableFunc(c.report.Violations, func(a, b Violation) int { return cmp.Compare(a.From, b.From) })
	for _, l := range c.losses {
		c.report.Losses = append(c.report.Losses, *l)
	}
	slices.SortFunc(c.report.Losses, func(a, b Loss) int { return cmp.Compare(a.Fault, b.Fault) })
	return c.report
}
