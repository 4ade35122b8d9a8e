package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfastlock/holdfast/redisstore"
)

// examineQuorum examines each of several servers, and what they are together.
func examineQuorum(ctx context.Context, r *report, nodes []redisstore.Options) error {
	var all merged
	var answered []*server
	var failed error
	servers, failures := connectAll(ctx, r, nodes)
	for i, s := range servers {
		own, err := all.report(r.Options, nodes[i].Client.InitAddress[0]), failures[i]
		if err == nil {
			s.look(ctx)
			err = s.examine(ctx, own)
			s.client.Close()
		}
		if err != nil {
			failed = err
			own.add(Warning, "answer", "none: "+oneLine(err), "the others must make a majority without it", "see whether it runs, and whether this machine reaches it")
			continue
		}
		answered = append(answered, s)
	}
	if len(answered) == 0 {
		return failed
	}
	majority(r, len(answered), len(nodes))
	distinct(r, answered)
	versions(r, answered)
	clocks(r, answered)
	all.tell(r.Found)
	return ctx.Err()
}

// connectAll connects to all at once, so that those that are down are waited for
// together.
func connectAll(ctx context.Context, r *report, nodes []redisstore.Options) (servers []*server, failures []error) {
	servers, failures = make([]*server, len(nodes)), make([]error, len(nodes))
	var connecting sync.WaitGroup
	for i, options := range nodes {
		connecting.Go(func() {
			servers[i], failures[i] = connect(ctx, r, options.Client, options, options.Client.InitAddress...)
		})
	}
	connecting.Wait()
	return servers, failures
}

// majority says whether enough servers answer.
func majority(r *report, answered, nodes int) {
	found := fmt.Sprintf("%d of %d servers answer", answered, nodes)
	switch need := nodes/2 + 1; {
	case answered < need:
		r.add(Failure, "quorum", found, fmt.Sprintf("a lock needs %d", need), "get the others to answer")
	case answered == need && answered < nodes:
		r.add(Warning, "quorum", found, "if one more is lost, no lock can be had", "get the others to answer")
	case answered < nodes:
		r.add(Warning, "quorum", found, "fewer of them may be lost than was meant", "get the others to answer")
	default:
		r.ok("quorum", found)
	}
}

// distinct finds a server that is named twice, by other addresses, or the replica
// of another.
func distinct(r *report, answered []*server) {
	seen := make(map[string]string)
	for _, s := range answered {
		id := s.info["run_id"]
		if id == "" {
			r.add(Note, "independent", "can't be seen", "two of the addresses may lead to the same server, which then has two votes", "")
			return
		}
		if first, twice := seen[id]; twice {
			r.add(Failure, "independent", first+" and "+s.address+" are the same server", "it has two votes: one server less makes a majority",
				"name each server once")
			return
		}
		seen[id] = s.address
	}
	r.ok("independent", "every address leads to another server")
}

// versions says whether the servers differ.
func versions(r *report, answered []*server) {
	var all []string
	for _, s := range answered {
		if s.infoErr == nil {
			flavour, number := s.product()
			all = appendOnce(all, flavour+" "+number)
		}
	}
	slices.Sort(all)
	if len(all) > 1 {
		r.add(Note, "versions", strings.Join(all, ", "), "they are upgraded one after the other, or one was forgotten", "")
	}
}

// clocks compares the servers' clocks with one another.
func clocks(r *report, answered []*server) {
	var first, last time.Duration
	for i, s := range answered {
		if !s.clock.known {
			return
		}
		if i == 0 {
			first, last = s.clock.ahead, s.clock.ahead
		}
		first, last = min(first, s.clock.ahead), max(last, s.clock.ahead)
	}
	const tolerable = time.Second
	found := "within " + short(last-first) + " of each other"
	if last-first > tolerable {
		r.add(Note, "clocks", found, "leases don't depend on it; a fence begins with the clock that is ahead", "let NTP set the clocks of all")
		return
	}
	r.ok("clocks", found)
}
