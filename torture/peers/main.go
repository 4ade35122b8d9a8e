// Command peers puts other libraries of locks to the work and the faults of
// torture, each in turn with the same seed, and prints a table. Run it in its
// folder:
//
//	go run . -for 60s -seed 1
//
// Only exclusion can be compared: none of the others has a fencing token. What
// the figures mean, and how each library is used, is in README.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/holdfastlock/holdfast/torture/worker"
)

func main() {
	if len(os.Args) == 2 && os.Args[1] == worker.Argument {
		work()
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	plan, err := parse(os.Args[1:])
	if err == nil {
		err = compare(ctx, plan, os.Stdout)
	}
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

// work is a worker of the peer that the environment names.
func work() {
	p, err := find(os.Getenv(environment))
	if err != nil || p.open == nil {
		fmt.Fprintln(os.Stderr, "peers: no worker:", environment, "names no peer")
		os.Exit(1)
	}
	worker.Main(p.open)
}

// plan is what to compare.
type plan struct {
	peers  []peer
	length time.Duration
	seed   uint64
	faults string
	keep   string
}

// undisturbedClocks are all faults by which no data is lost and no clock set.
const undisturbedClocks = "SIGKILL,SIGSTOP,delay,black hole,cut,reply lost,requests lost,replies lost," +
	"server SIGSTOP,server SIGKILL,restart,SCRIPT FLUSH,CLIENT KILL normal,CLIENT KILL pubsub,tiny pubsub buffers,full memory"

func parse(args []string) (plan, error) {
	var p plan
	flags := flag.NewFlagSet("peers", flag.ContinueOnError)
	flags.DurationVar(&p.length, "for", 60*time.Second, "how long each library is tortured")
	flags.Uint64Var(&p.seed, "seed", 1, "the same `number` makes the same faults at the same times")
	flags.StringVar(&p.faults, "faults", undisturbedClocks, "`kinds` of faults, as torture has them; by default those that lose no data and set no clock")
	flags.StringVar(&p.keep, "keep", "", "`folder` in which to leave the histories and timelines")
	only := flags.String("only", "", "`names` of peers divided by commas; by default all")
	if err := flags.Parse(args); err != nil {
		return p, err
	}
	if flags.NArg() > 0 {
		return p, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	p.peers = slices.Clone(peers)
	if *only == "" {
		return p, nil
	}
	p.peers = nil
	for name := range strings.SplitSeq(*only, ",") {
		chosen, err := find(name)
		if err != nil {
			return p, err
		}
		p.peers = append(p.peers, chosen)
	}
	return p, nil
}
