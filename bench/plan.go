package main

import (
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// workloads are what can be measured, in this order.
var workloads = []string{"commands", "own", "onekey", "procs", "waiters", "keepalive", "limit", "clients", "quorum"}

// plan is what one run of the program measures.
type plan struct {
	workloads  []string
	libraries  []string // names; empty means all
	goroutines []int    // empty means each workload's own numbers
	processes  int      // of the workload procs
	duration   time.Duration
	reps       int
	leases     int           // of the workload keepalive
	ttl        time.Duration // of those leases
	hold       time.Duration // how long they are kept alive
	quick      bool
	ratios     bool // the line of ratios is wanted
	json       bool
	cpuProfile string
	memProfile string
}

const usageText = `Usage: go run . [flags]

Measures holdfast, beside its peers and the bare client, on a Redis server of
its own, and prints Markdown tables. Workloads:

  commands   what each operation of holdfast costs: round trips, commands
  own        each goroutine acquires and releases a key of its own; 1, 64, 1024
  onekey     all goroutines of one process want one key; 16, 256; empty section
  procs      -processes with 8 goroutines each want one key; empty section, 1 ms
  waiters    1000 goroutines want one key
  keepalive  -leases are held and kept alive
  limit      what the server can do, by redis-benchmark
  clients    as own with 1 and 64: holdfast on a client that it is given
  quorum     on 5 servers: as own with 1 and 64, as onekey with 16

With -quick, or whenever everything it needs was measured, the last line is

  ratios own1=… own64=… … keepalive_cpu=…

own* are pairs a second of holdfast to those of the best peer: WithoutFence, and
with _fenced as it comes. onekey16 and onekey16_handoffs are acquisitions and
hand-offs a second with 16 goroutines, jain16 is Jain's index of holdfast there,
and no ratio. procs8 is hand-offs between processes with NoLocalPassing and an
empty section; procs8_cmds is how many commands holdfast sent there for each
acquisition, and no ratio. keepalive_cpu is holdfast's CPU time to
rueidislock's: there smaller is better, elsewhere larger. Each figure is the
median of the repetitions, and the best peer is the one with the largest.

Flags:
`

func parse(args []string) (plan, error) {
	var p plan
	var chosen, libraries, goroutines string
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.StringVar(&chosen, "workload", "", "`names` of the workloads to measure; default all")
	flags.StringVar(&libraries, "library", "", "`names` of the libraries to measure; default all")
	flags.StringVar(&goroutines, "goroutines", "", "`numbers` of goroutines; default those of each workload")
	flags.IntVar(&p.processes, "processes", 8, "of the workload procs")
	flags.DurationVar(&p.duration, "duration", 1200*time.Millisecond, "of one measurement; twice as long where there is contention, of which a fifth is not counted")
	flags.IntVar(&p.reps, "reps", 3, "repetitions of each measurement")
	flags.IntVar(&p.leases, "leases", 10_000, "how many leases are held")
	flags.DurationVar(&p.ttl, "ttl", 5*time.Second, "of the leases that are held")
	flags.DurationVar(&p.hold, "hold", 20*time.Second, "how long they are kept alive")
	flags.BoolVar(&p.quick, "quick", false, "only what the line of ratios needs, and less exactly")
	flags.BoolVar(&p.json, "json", false, "print JSON in place of tables")
	flags.StringVar(&p.cpuProfile, "cpuprofile", "", "write a CPU profile of this process to `file`")
	flags.StringVar(&p.memProfile, "memprofile", "", "write a profile of all allocations of this process to `file`")
	flags.Usage = func() {
		fmt.Fprint(flags.Output(), usageText)
		flags.PrintDefaults()
		fmt.Fprintf(flags.Output(), "\nLibraries: %s.\n", strings.Join(libraryNames(), ", "))
	}
	if err := flags.Parse(args); err != nil {
		return p, err
	}
	p.workloads, p.libraries = split(chosen), split(libraries)
	if p.quick {
		p.hurry(flags)
	}
	for _, text := range split(goroutines) {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n >= 1<<16 {
			return p, fmt.Errorf("-goroutines: %q is not a number of goroutines", text)
		}
		p.goroutines = append(p.goroutines, n)
	}
	return p, p.validate(flags.Args())
}

// hurry shortens what was not asked for otherwise.
func (p *plan) hurry(flags *flag.FlagSet) {
	given := map[string]bool{}
	flags.Visit(func(f *flag.Flag) { given[f.Name] = true })
	if !given["duration"] {
		p.duration = 220 * time.Millisecond
	}
	if !given["hold"] {
		p.hold = 5 * time.Second
	}
	if !given["workload"] {
		p.workloads = []string{"own", "onekey", "procs", "keepalive"}
		p.ratios = !given["library"] && !given["goroutines"]
	}
}

func (p plan) validate(rest []string) error {
	for _, name := range p.workloads {
		if !slices.Contains(workloads, name) {
			return fmt.Errorf("-workload: %q is none of %s", name, strings.Join(workloads, ", "))
		}
	}
	for _, name := range p.libraries {
		if _, err := find(name); err != nil {
			return fmt.Errorf("-library: %w", err)
		}
	}
	switch {
	case len(rest) > 0:
		return fmt.Errorf("%q is not understood; see -help", rest[0])
	case p.reps < 1 || p.leases < 1 || p.processes < 1:
		return fmt.Errorf("-reps, -leases and -processes must be at least 1")
	}
	return nil
}

func split(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' })
}

func (p plan) wants(workload string) bool {
	return len(p.workloads) == 0 || slices.Contains(p.workloads, workload)
}

// goroutinesOr returns the numbers of goroutines that were asked for, or a
// workload's own.
func (p plan) goroutinesOr(own ...int) []int {
	if len(p.goroutines) > 0 {
		return p.goroutines
	}
	return own
}
