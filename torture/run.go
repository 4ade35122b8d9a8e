package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/holdfastlock/holdfast/torture/check"
	"github.com/holdfastlock/holdfast/torture/clockshim"
	"github.com/holdfastlock/holdfast/torture/history"
	"github.com/holdfastlock/holdfast/torture/nemesis"
	"github.com/holdfastlock/holdfast/torture/resource"
	"github.com/holdfastlock/holdfast/torture/worker"
)

// options say what to run.
type options struct {
	length  time.Duration
	seed    uint64
	store   string // one of storeKinds
	kinds   []nemesis.Kind
	worker  string // path; empty means to build it
	workers int
	clients int // of each worker
	ttl     time.Duration
	// parameters are what follows the ? of a URL of Redis; may be empty.
	parameters string
	// fenceless is for workers of another library; see check.Rules.
	fenceless bool
	names     worker.Names
	// readersStop puts faults of nemesis.Stop where a plan seldom has them: between
	// what a worker has read and what it is going to write.
	readersStop bool
	log         func(format string, args ...any)
}

// allNames make every kind of work.
var allNames = worker.Names{
	Locks: []string{"a", "b", "c", "d"}, Delayed: []string{"late1", "late2"}, Queues: []string{"queue"},
	Registers: []string{"x", "y"}, Jobs: []string{"job", "every"},
}

// namesOf are those that a store is fit for: a quorum keeps no record of slots, and
// grants a lease without a fence in another way than one with.
func namesOf(store string) worker.Names {
	names := allNames
	if store == "quorum" {
		names.Jobs, names.Unfenced = nil, []string{"bare1", "bare2"}
	}
	return names
}

// storeTimeout is how long a worker's call goes on trying, for a TTL of a
// second.
const storeTimeout = 2 * time.Second

func (o options) storeTimeout() time.Duration {
	return time.Duration(o.ttl.Seconds() * float64(storeTimeout))
}

// ownTTL is long, unless the store loses data: a lock can then be left taken until
// its TTL is over because its release was forgotten.
func (o options) ownTTL() time.Duration {
	if o.store == "quorum" {
		return o.ttl // for so long a server that was restarted abstains
	}
	for _, kind := range o.kinds {
		if kind.Loss {
			return o.ttl
		}
	}
	return 30 * o.ttl
}

// url adds the parameters to a URL of Redis.
func (o options) url(base string) string {
	if o.parameters == "" {
		return base
	}
	return base + "?" + o.parameters
}

// rules are what the checkers must know of the run.
func (o options) rules() check.Rules {
	rules := check.Rules{
		TTL: o.ttl, Fenceless: o.fenceless,
		// A request waits for the worst of each lane: in a process that is
		// stopped, in the network, and before a server that is stopped.
		Linger:   o.storeTimeout(),
		Recovery: 2*o.ttl + 2*time.Second + worker.LockDelay(o.ttl),
	}
	longest := make(map[nemesis.Lane]time.Duration)
	for _, kind := range o.kinds {
		longest[kind.Lane] = max(longest[kind.Lane], kind.Longest)
		if kind.Loss {
			rules.Losses = append(rules.Losses, kind.Name)
		}
		if kind.ClockBack {
			rules.ClockBack = append(rules.ClockBack, kind.Name)
		}
	}
	for _, d := range longest {
		rules.Linger += time.Duration(float64(d) * o.ttl.Seconds())
	}
	if o.store == "postgres" {
		o.rulesOfPostgres(&rules)
	}
	return rules
}

// run is one run under way.
type run struct {
	options   options
	dir       string
	resources *resource.Server
	backend   backend // nil for a store without servers
	workers   []*process
	// readers has the number of a worker that has just read a resource, if
	// anybody wants to know.
	readers chan int

	mu     sync.Mutex
	events []history.Event
}

// result is what a run leaves.
type result struct {
	events   []history.Event
	versions map[string]string
}

// torture carries a run out. Nothing of it goes on when it returns.
func torture(ctx context.Context, o options) (result, error) {
	dir, err := os.MkdirTemp("", "torture-")
	if err != nil {
		return result{}, err
	}
	defer os.RemoveAll(dir)
	r := &run{options: o, dir: dir, readers: make(chan int)}
	r.backend = newBackend(o, dir, r.add)
	defer r.close()
	if err := r.setUp(); err != nil {
		return result{}, err
	}
	if err := r.under(ctx); err != nil {
		return result{}, err
	}
	if err := r.survey(); err != nil {
		return result{}, err
	}
	if p, ok := r.backend.(*postgres); ok {
		if err := r.readTables(ctx, p.primary); err != nil {
			return result{}, err
		}
	}
	return result{r.history(), r.versions()}, nil
}

func (r *run) add(e history.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
}

// heardFrom returns what adds the events of worker n.
func (r *run) heardFrom(n int) func(history.Event) {
	return func(e history.Event) {
		r.add(e)
		if e.Kind == history.Return && e.Do == history.Read {
			select {
			case r.readers <- n:
			default:
			}
		}
	}
}

// history returns what was added so far. It is not copied: a long run has
// millions of events.
func (r *run) history() []history.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clip(r.events)
}

// versions are those of what took part.
func (r *run) versions() map[string]string {
	versions := map[string]string{"go": runtime.Version()}
	if r.backend != nil {
		maps.Copy(versions, r.backend.versions())
	}
	return versions
}

// setUp starts all but the workers.
func (r *run) setUp() (err error) {
	if r.options.worker == "" {
		r.options.log("building the worker")
		if r.options.worker, err = buildWorker(r.dir); err != nil {
			return err
		}
	}
	if r.resources, err = resource.Listen(r.socket(), r.add); err != nil {
		return err
	}
	if r.backend != nil {
		if err := r.backend.start(); err != nil {
			return err
		}
	}
	for n := 1; n <= r.options.workers; n++ {
		w, err := r.newWorker(n)
		if err != nil {
			return err
		}
		r.workers = append(r.workers, w)
	}
	return nil
}

func (r *run) socket() string { return filepath.Join(r.dir, "resources") }

func (r *run) newWorker(n int) (*process, error) {
	clock, err := clockshim.Create(filepath.Join(r.dir, fmt.Sprintf("w%d.clock", n)))
	store := "sqlite://" + filepath.Join(r.dir, "locks.db")
	var networks map[string]string
	if r.backend != nil {
		store, networks = r.backend.store(n)
	}
	return &process{
		binary: r.options.worker, number: n, clock: clock, record: r.heardFrom(n),
		settings: worker.Settings{
			Store: store, Networks: networks, Resource: r.socket(), Clients: r.options.clients,
			TTL: r.options.ttl, OwnTTL: r.options.ownTTL(), StoreTimeout: r.options.storeTimeout(),
			Seed:  r.options.seed<<16 + uint64(n),
			Names: r.options.names,
		},
	}, err
}

// under has the workers work under the faults of the plan, and lets them end.
func (r *run) under(ctx context.Context) error {
	plan, err := r.options.plan()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	for _, w := range r.workers {
		w.died = cancel
		if err := w.start(); err != nil {
			return err
		}
	}
	start := time.Now()
	faults := nemesis.Runner{Do: r.actions(), Record: r.fault(start)}
	if r.options.readersStop {
		err = r.stopReaders(ctx, &faults, start)
	} else {
		err = faults.Run(ctx, start, plan)
	}
	if err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(time.Until(start.Add(r.options.length))):
	}
	r.options.log("the time is over; the workers end what they do")
	return r.stopWorkers()
}

// plan is an error if faults are wanted and there is no time for any.
func (o options) plan() ([]nemesis.Fault, error) {
	spec := o.spec()
	plan := nemesis.Plan(spec)
	if len(plan) == 0 && len(o.kinds) > 0 {
		return nil, fmt.Errorf("%v is too short for any fault: a run ends with %v of calm", o.length, spec.Calm())
	}
	return plan, nil
}

func (o options) spec() nemesis.Spec {
	return nemesis.Spec{Seed: o.seed, Length: o.length, Workers: o.workers, TTL: o.ttl, Kinds: o.kinds}
}

// fault records a fault and says so.
func (r *run) fault(start time.Time) func(history.Event) {
	return func(e history.Event) {
		r.add(e)
		if e.Kind == history.Fault {
			r.options.log("%7.1f s  %s", time.Since(start).Seconds(), e.Note)
		}
	}
}

// stopWorkers waits for what a client may be doing: two waits and a long tenure.
func (r *run) stopWorkers() error {
	limit := 10*r.options.ttl + 4*r.options.storeTimeout() + 20*time.Second
	errs := make([]error, len(r.workers))
	var stopping sync.WaitGroup
	for i, w := range r.workers {
		stopping.Go(func() { errs[i] = w.stop(limit) })
	}
	stopping.Wait()
	return errors.Join(errs...)
}

func (r *run) close() {
	for _, w := range r.workers {
		w.close()
	}
	if r.backend != nil {
		r.backend.close()
	}
	if r.resources != nil {
		r.resources.Close()
	}
}
