package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"slices"
	"strings"
	"time"

	"github.com/holdfastlock/holdfast/torture/nemesis"
)

// Exit codes.
const (
	exitViolated    = 1
	exitFailed      = 2
	exitInterrupted = 130 // as a shell has it
)

// command carries out the command line and returns the exit code.
func command(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, out, err := parse(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err == nil && out.list:
		listKinds(stdout, o.store)
		return 0
	case err == nil:
		var violated bool
		if violated, err = carryOut(ctx, o, out, stdout, stderr); violated {
			return exitViolated
		}
	}
	if ctx.Err() != nil {
		fmt.Fprintln(stderr, "torture: interrupted")
		return exitInterrupted
	}
	if err != nil {
		fmt.Fprintln(stderr, "torture: the run failed and says nothing about holdfast:", err)
		return exitFailed
	}
	return 0
}

// output says what to do with a run's results.
type output struct {
	list    bool   // nothing but to list the kinds of faults
	json    bool   // the document and not the table
	keep    string // folder for the history and timelines
	command string // that does it again
}

func parse(args []string, stderr io.Writer) (o options, out output, err error) {
	flags := flag.NewFlagSet("torture", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.DurationVar(&o.length, "for", 30*time.Second, "how long the workers work")
	flags.Uint64Var(&o.seed, "seed", uint64(time.Now().Unix()), "the same `number` makes the same faults at the same times")
	flags.StringVar(&o.store, "store", "redis", "redis, sentinel, cluster, quorum, postgres, or local for the embedded store")
	flags.StringVar(&o.parameters, "parameters", "", "`parameters` of the URL for redis, sentinel or cluster, as wait_replicas=1")
	faults := flags.String("faults", "all", "all, none, lossless, list, or `kinds` divided by commas")
	flags.StringVar(&o.worker, "worker", "", "`path` of a worker, for a mutant or another library; see package worker")
	flags.BoolVar(&o.fenceless, "fenceless", false, "the library of -worker has no fences: check only what needs none")
	flags.IntVar(&o.workers, "workers", 4, "how many client processes")
	flags.IntVar(&o.clients, "clients", 8, "how many goroutines in each")
	flags.DurationVar(&o.ttl, "ttl", time.Second, "TTL of the leases; faults last longer with it")
	flags.BoolVar(&out.json, "json", false, "write the result as one JSON document to standard output")
	flags.StringVar(&out.keep, "keep", "", "`folder` in which to leave the history and the timelines")
	if err := flags.Parse(args); err != nil {
		return o, out, err
	}
	o.log = log.New(stderr, "", 0).Printf
	o.names = namesOf(o.store)
	out.command = repeat(flags)
	out.list = *faults == "list"
	switch {
	case flags.NArg() > 0:
		return o, out, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case !slices.Contains(storeKinds, o.store):
		return o, out, fmt.Errorf("-store %s is none of %s: servers are always the run's own", o.store, strings.Join(storeKinds, ", "))
	case o.parameters != "" && !slices.Contains([]string{"redis", "sentinel", "cluster"}, o.store):
		return o, out, fmt.Errorf("-parameters are for the URL of redis, sentinel or cluster, not of %s", o.store)
	case o.workers < 1 || o.clients < 1 || o.length <= 0 || o.ttl < 100*time.Millisecond:
		return o, out, errors.New("-workers and -clients are at least 1, -for is more than 0, -ttl at least 100ms")
	}
	o.kinds, err = chooseKinds(*faults, o.store)
	return o, out, err
}

// repeat returns the command line that makes the same run again.
func repeat(flags *flag.FlagSet) string {
	text := fmt.Sprintf("go run ./torture -seed %s", flags.Lookup("seed").Value)
	flags.Visit(func(f *flag.Flag) {
		switch f.Name {
		case "seed", "json", "keep":
		default:
			text += fmt.Sprintf(" -%s %q", f.Name, f.Value)
		}
	})
	return text
}

// chooseKinds returns the kinds that the text names and the store can suffer.
func chooseKinds(text, store string) (kinds []nemesis.Kind, err error) {
	named := strings.Split(text, ",")
	for _, kind := range nemesis.Of(store) {
		i := slices.Index(named, kind.Name)
		if i >= 0 {
			named = slices.Delete(named, i, i+1)
		}
		if i >= 0 || text == "all" || text == "lossless" && !kind.Loss {
			kinds = append(kinds, kind)
		}
	}
	words := []string{"all", "lossless", "none", "list"}
	if len(named) > 0 && !slices.Contains(words, text) {
		return nil, fmt.Errorf("-faults: for this store there is no kind %q; see -faults list", named[0])
	}
	return kinds, nil
}

func listKinds(to io.Writer, store string) {
	for _, kind := range nemesis.Of(store) {
		what := kind.What
		if kind.Loss {
			what += " (a documented loss)"
		}
		fmt.Fprintf(to, "%-22s %s\n", kind.Name, what)
	}
}
