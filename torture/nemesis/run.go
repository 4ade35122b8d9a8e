package nemesis

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfastlock/holdfast/torture/history"
)

// Action begins a fault. It returns what it was done to, for the history: the
// name of a process if no other process is concerned; and what heals it, which
// is nil for a fault of a moment.
type Action func(f Fault) (target string, heal func() error, err error)

// Process is what the history calls the one who does it.
const Process = "nemesis"

// Runner carries out plans.
type Runner struct {
	// Do has the action of each kind, by its name.
	Do map[string]Action
	// Record is told of each Fault and Heal. It is for many goroutines.
	Record func(history.Event)

	ops atomic.Int64
}

// laneOf is what tells lanes apart.
type laneOf struct {
	lane   Lane
	worker int
}

// Run carries out a plan that began at start, each lane in a goroutine of its own,
// and returns when it is done or ctx has ended; then everything is healed. An
// error means that a fault could not be begun or healed, and ends all lanes.
func (r *Runner) Run(ctx context.Context, start time.Time, plan []Fault) error {
	lanes := make(map[laneOf][]Fault)
	for _, f := range plan {
		of := laneOf{f.Kind.Lane, f.Worker}
		lanes[of] = append(lanes[of], f)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var running sync.WaitGroup
	for _, lane := range lanes {
		running.Go(func() {
			for _, f := range lane {
				if !sleep(ctx, time.Until(start.Add(f.At))) {
					return
				}
				if err := r.one(ctx, f); err != nil {
					cancel(fmt.Errorf("%v: %w", f, err))
				}
			}
		})
	}
	running.Wait()
	return context.Cause(ctx)
}

// one does one fault and heals it. At of a Fault is before its first effect, and
// that of a Heal after the last.
func (r *Runner) one(ctx context.Context, f Fault) error {
	f.Op = r.ops.Add(1)
	e := history.Event{At: history.Now(), Kind: history.Fault, Process: Process, Op: f.Op, Fault: f.Kind.Name, Note: f.String()}
	target, heal, err := r.Do[f.Kind.Name](f)
	if err != nil {
		return err
	}
	e.Name = target
	r.Record(e)
	if heal != nil {
		sleep(ctx, f.For)
		err = heal()
	}
	if err != nil {
		return err
	}
	e.At, e.Kind = history.Now(), history.Heal
	r.Record(e)
	return nil
}

// sleep says whether ctx lives yet when d is over.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
