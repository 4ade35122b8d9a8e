// Command bench measures holdfast on a Redis server of its own, beside the
// bare client that sends the same commands, and prints tables for
// docs/performance.md. Run it in its folder: go run .
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// plan is what one run of the program measures.
type plan struct {
	sections   []string // of commands, pairs, held
	adapters   []string // names; empty means all
	goroutines []int
	duration   time.Duration // of one measurement of pairs
	reps       int           // measurements of each adapter at each number of goroutines
	leases     int           // held at once
	ttl        time.Duration // of those leases
	hold       time.Duration // how long they are kept alive
	scripts    string        // folder of redisstore's scripts
	json       bool
	cpuProfile string
	memProfile string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	p, err := parse(os.Args[1:])
	if err == nil {
		err = run(ctx, p)
	}
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func parse(args []string) (plan, error) {
	var p plan
	var sections, adapters, goroutines string
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.StringVar(&sections, "run", "commands,pairs,held", "what to measure")
	flags.StringVar(&adapters, "adapters", "", "which `names` to measure pairs of; default all")
	flags.StringVar(&goroutines, "goroutines", "1,64,1024", "`numbers` of goroutines for pairs")
	flags.DurationVar(&p.duration, "duration", 2*time.Second, "of one measurement of pairs")
	flags.IntVar(&p.reps, "reps", 5, "repetitions of each measurement of pairs")
	flags.IntVar(&p.leases, "leases", 10_000, "how many leases are held")
	flags.DurationVar(&p.ttl, "ttl", 5*time.Second, "of the leases that are held")
	flags.DurationVar(&p.hold, "hold", 20*time.Second, "how long they are kept alive")
	flags.StringVar(&p.scripts, "scripts", "../redisstore/scripts", "`folder` of the scripts for the bare client")
	flags.BoolVar(&p.json, "json", false, "print JSON in place of tables")
	flags.StringVar(&p.cpuProfile, "cpuprofile", "", "write a CPU profile of the measurements to `file`")
	flags.StringVar(&p.memProfile, "memprofile", "", "write a profile of all allocations to `file`")
	if err := flags.Parse(args); err != nil {
		return p, err
	}
	p.sections, p.adapters = split(sections), split(adapters)
	for _, text := range split(goroutines) {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return p, fmt.Errorf("-goroutines: %q is not a number of goroutines", text)
		}
		p.goroutines = append(p.goroutines, n)
	}
	return p, p.validate(flags.Args())
}

func (p plan) validate(rest []string) error {
	for _, section := range p.sections {
		if !slices.Contains([]string{"commands", "pairs", "held"}, section) {
			return fmt.Errorf("-run: %q is none of commands, pairs, held", section)
		}
	}
	for _, name := range p.adapters {
		if !slices.ContainsFunc(adapters, func(a adapter) bool { return a.name == name }) {
			return fmt.Errorf("-adapters: there is no %q; there are: %s", name, strings.Join(adapterNames(), ", "))
		}
	}
	switch {
	case len(rest) > 0:
		return fmt.Errorf("%q is not understood; see -help", rest[0])
	case p.reps < 1 || p.leases < 1:
		return fmt.Errorf("-reps and -leases must be at least 1")
	}
	return nil
}

func split(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' })
}

// run starts the server, measures, and prints.
func run(ctx context.Context, p plan) (err error) {
	s, err := startServer(ctx)
	if err != nil {
		return err
	}
	defer s.stop()
	stopProfiles, err := startProfiles(p)
	if err != nil {
		return err
	}
	r := report{Machine: s.machine(), plan: p}
	if err := r.measure(ctx, s); err != nil {
		return err
	}
	if err := stopProfiles(); err != nil {
		return err
	}
	if err := r.print(os.Stdout); err != nil {
		return err
	}
	return r.sound()
}

func (r *report) measure(ctx context.Context, s *server) (err error) {
	if slices.Contains(r.plan.sections, "commands") {
		if r.Commands, err = measureCommands(ctx, s); err != nil {
			return err
		}
	}
	if slices.Contains(r.plan.sections, "pairs") {
		if r.Pairs, err = measurePairs(ctx, s, r.plan); err != nil {
			return err
		}
	}
	if slices.Contains(r.plan.sections, "held") {
		if r.Held, err = measureHeld(ctx, s, r.plan); err != nil {
			return err
		}
	}
	return nil
}
