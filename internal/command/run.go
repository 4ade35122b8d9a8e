package command

import (
	"context"
	"errors"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfastlock/holdfast"
	"github.com/holdfastlock/holdfast/driver"
	"github.com/holdfastlock/holdfast/internal/supervise"
	"github.com/holdfastlock/holdfast/open"
)

// run is one holdfast run.
type run struct {
	*app
	flags runFlags
	name  string
	// renewed receives when the deadline of the lease has moved.
	renewed chan struct{}
}

func (a *app) runCommand() *cobra.Command {
	r := &run{app: a, renewed: make(chan struct{}, 1)}
	cmd := &cobra.Command{
		Use:   "run NAME [flags] -- COMMAND [ARG...]",
		Short: "Run a command while holding a lock",
		Long: `Run takes the lock, runs the command, keeps the lease alive, stops the command
if the lease can't be kept, and releases the lock when the command has ended.

Exit codes: the command's own, or 128 + n if signal n ended it; 75 another holds
the lock (see -E); 79 the lock was lost while the command ran; 124 --max-runtime
ended the command; 69 the store can't be reached; 64 usage; 77 refused by the
store; 78 configuration; 126 command not executable; 127 command not found;
70 any other error.

TERM, INT, HUP, QUIT, USR1 and USR2 are passed on to the command's process group;
a second TERM or INT kills it. A supervisor, a small second process, stops the
command before the lease can end even if holdfast is frozen or killed. On Linux
it also finds processes that have left the command's group.

With --slot, --every or --cron it runs once per slot among all hosts: exit code 0,
without a word, if the slot is done, or running elsewhere and there is no --wait;
with --wait it stands by, and takes over if the one that runs it crashes.

The command finds HOLDFAST_NAME, HOLDFAST_FENCE, HOLDFAST_OWNER and
HOLDFAST_STORE (without its password) in its environment; with a slot also
HOLDFAST_SLOT and HOLDFAST_ATTEMPT.`,
		Example: `  holdfast run --store local nightly-report -- ./report.sh
  holdfast run --wait 10m reindex -- sh -c 'make index && make publish'
  holdfast run --cron '0 2 * * *' --tz Europe/Paris --wait forever nightly-report -- ./report.sh`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return r.run(cmd, args)
		},
	}
	r.flags.define(cmd)
	return cmd
}

func (r *run) run(cmd *cobra.Command, args []string) error {
	argv, err := r.arguments(cmd, args)
	if err != nil {
		return err
	}
	if err := r.flags.check(cmd); err != nil {
		return err
	}
	command, err := supervise.Find(argv)
	if err != nil {
		return notStarted(argv, err)
	}
	signals := catchSignals()
	if r.flags.slot.given {
		return r.runSlot(cmd.Context(), argv, command, signals)
	}
	var s *session
	var lease *holdfast.Lease
	err = orSignal(cmd.Context(), signals, nil, func(ctx context.Context) (err error) {
		s, lease, err = r.acquire(ctx)
		return err
	})
	if s != nil {
		defer s.close(cmd.Context()) // it releases a lease that came with the signal
	}
	if err != nil {
		return r.notAcquired(err)
	}
	outcome, err := r.underLease(s, lease, command, signals)
	if err != nil {
		err = notStarted(argv, err)
	}
	return r.finish(cmd.Context(), lease, outcome, err)
}

// arguments checks NAME -- COMMAND, keeps the name and returns the command.
func (r *run) arguments(cmd *cobra.Command, args []string) ([]string, error) {
	dash := cmd.ArgsLenAtDash()
	switch {
	case dash < 0:
		return nil, usage("put -- before the command: holdfast run NAME [flags] -- COMMAND [ARG...]")
	case dash == 0:
		return nil, usage("the name of the lock is missing: holdfast run NAME [flags] -- COMMAND [ARG...]")
	case dash > 1:
		return nil, usage("one name before the --, not %d: %s", dash, strings.Join(args[:dash], " "))
	case len(args) == dash || args[dash] == "":
		return nil, usage("the command is missing after the --")
	}
	r.name = args[0]
	return args[dash:], driver.CheckName(r.name)
}

// refuseNesting refuses to wait for ourselves: a run inside a run of the same
// name would find the lock held by its own parent.
func (r *run) refuseNesting(ctx context.Context, s *session) error {
	outer := outerFence()
	if outer == 0 || os.Getenv("HOLDFAST_NAME") != r.name {
		return nil
	}
	state, err := s.locker.Inspect(ctx, r.name)
	if err != nil {
		return err
	}
	if _, ours := holderOf(state, outer); ours {
		return usage("%s is already held by the run that this one is in (fence %d); leave out one of the two", r.name, outer)
	}
	return nil
}

// openToRun opens the store, unless this is a run inside itself. The session is
// to be closed also after an error, if there is one.
func (r *run) openToRun(ctx context.Context) (*session, error) {
	s, err := r.open(ctx, holdfast.Config{
		Owner: r.flags.owner, TTL: r.flags.leaseTTL(),
		Events: holdfast.Events{Extended: r.deadlineMoved},
	})
	if err != nil {
		return nil, err
	}
	return s, r.refuseNesting(ctx, s)
}

// acquire opens the store and takes the lock.
func (r *run) acquire(ctx context.Context) (*session, *holdfast.Lease, error) {
	s, err := r.openToRun(ctx)
	if err != nil {
		return s, nil, err
	}
	lease, err := s.locker.Acquire(ctx, r.name, r.flags.options()...)
	return s, lease, err
}

// notAcquired says why the command was not run.
func (r *run) notAcquired(err error) error {
	var held *holdfast.HeldError
	if !errors.As(err, &held) {
		return err
	}
	if r.flags.onConflict == skip {
		return &exit{code: 0}
	}
	var c card
	c.text.WriteString(clean(r.name) + " is held by another; the command was not run")
	if held.Holder.Token != "" {
		c.holder(held.Holder)
	}
	if url, err := r.chosenStore(); err == nil {
		c.line("store", open.Place(url))
	}
	c.line("next", r.next("show "+quote(r.name)))
	return &exit{r.flags.conflictCode, c.text.String()}
}

// notStarted says why the command could not be started, and whose fault it was.
func notStarted(argv []string, err error) error {
	if errors.Is(err, supervise.ErrSystem) {
		return exitWith(codeFailed, "%v", err)
	}
	return exitWith(supervise.ExitCode(err), "can't run %s: %v", argv[0], errors.Unwrap(err))
}

// holderOf finds the holder with this fence.
func holderOf(state driver.State, fence int64) (driver.Holder, bool) {
	for _, h := range state.Holders {
		if h.Fence == fence {
			return h, true
		}
	}
	return driver.Holder{}, false
}
