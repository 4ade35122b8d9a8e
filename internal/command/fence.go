package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	fences "github.com/holdfastlock/holdfast/fence"
	"github.com/holdfastlock/holdfast/fence/filefence"
	"github.com/holdfastlock/holdfast/fence/sqlfence"
	"github.com/holdfastlock/holdfast/internal/supervise"
	"github.com/holdfastlock/holdfast/sqlitestore"
)

func (a *app) fenceCommand() *cobra.Command {
	which := func(*cobra.Command, []string) error {
		return usage("fence: say what, check or schema; see holdfast fence --help")
	}
	cmd := &cobra.Command{
		Use:   "fence",
		Short: "Let a resource refuse holders whose lock was lost",
		Args:  which,
		RunE:  which,
	}
	cmd.AddCommand(a.fenceCheckCommand(), a.fenceSchemaCommand())
	return cmd
}

func (a *app) fenceSchemaCommand() *cobra.Command {
	dialects := []string{string(sqlfence.Postgres), string(sqlfence.SQLite), string(sqlfence.MySQL)}
	return &cobra.Command{
		Use:   "schema (" + strings.Join(dialects, " | ") + ")",
		Short: "Print the table in which a database keeps fences",
		Long: `Schema prints the statement that makes the table of the Go packages fence/sqlfence
and fence/pgxfence. For MariaDB take mysql.`,
		ValidArgsFunction: cobra.FixedCompletions(dialects, cobra.ShellCompDirectiveNoFileComp),
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || sqlfence.Dialect(args[0]).Schema() == "" {
				return usage("fence schema: say which database: %s", strings.Join(dialects, ", "))
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			_, err := fmt.Fprintln(a.stdout, sqlfence.Dialect(args[0]).Schema()+";")
			return err
		},
	}
}

// fenceCheck is one holdfast fence check.
type fenceCheck struct {
	*app
	fence  int64
	owner  string
	dir    string
	limit  wait
	asJSON bool
}

func (a *app) fenceCheckCommand() *cobra.Command {
	f := &fenceCheck{app: a, limit: wait{forever: true}}
	cmd := &cobra.Command{
		Use:   "check RESOURCE [flags] [-- COMMAND [ARG...]]",
		Short: "Show a fence to a resource of this machine, which refuses older ones",
		Long: `Check compares the fence with the largest that the resource has seen on this
machine, and remembers it if it is not older. From then on older ones are refused.
With a COMMAND it then becomes the command, and no other fence is shown to the
resource until that has ended, with all that it has started: check and step are
one.

The memory is a folder on this machine; for a resource on another one run check
there. No store is asked: the lock may be lost although its fence is the newest
that the resource has seen so far.

Exit codes: 0 the newest, or the command's own; 79 stale, so the lock was lost;
78 two owners came with the same fence, or the folder can't be used; 75 another
command was still at work after --wait; 64 usage; 77 no access to the folder, or
no space; 126 command not executable; 127 command not found;
70 any other error.`,
		Example: `  holdfast run nightly-report -- sh -c 'make report && holdfast fence check report -- cp report.csv /srv/'
  ssh db1 holdfast fence check report --fence "$HOLDFAST_FENCE" --owner "$HOLDFAST_OWNER" -- import-report`,
		ValidArgsFunction: completeArguments,
		RunE: func(cmd *cobra.Command, args []string) error {
			command, err := f.arguments(cmd, args)
			if err != nil {
				return err
			}
			return f.run(cmd.Context(), args[0], command)
		},
	}
	flags := cmd.Flags()
	flags.Int64Var(&f.fence, "fence", 0, "fence to be shown (default $HOLDFAST_FENCE)")
	flags.StringVar(&f.owner, "owner", "", "who holds the lease (default $HOLDFAST_OWNER)")
	flags.StringVar(&f.dir, "dir", "", "folder of the memory (default fences beside the store local)")
	flags.VarP(&f.limit, "wait", "w", "wait this long for another command")
	jsonFlag(cmd, &f.asJSON)
	return cmd
}

// arguments checks them and the flags, and returns the command, if there is one.
func (f *fenceCheck) arguments(cmd *cobra.Command, args []string) (argv []string, err error) {
	names, given := len(args), cmd.Flags().Changed
	if dash := cmd.ArgsLenAtDash(); dash >= 0 {
		names, argv = dash, args[dash:]
	}
	if !given("fence") {
		f.fence = outerFence()
	}
	if !given("owner") {
		f.owner = os.Getenv("HOLDFAST_OWNER")
	}
	switch {
	case names != 1 || args[0] == "":
		return nil, usage("fence check takes one resource, and a command after --; see holdfast fence check --help")
	case names < len(args) && argv[0] == "", cmd.ArgsLenAtDash() == len(args):
		return nil, usage("the command is missing after the --")
	case argv != nil && f.asJSON:
		return nil, usage("--json and a command contradict: standard output belongs to the command")
	case given("store") || given("config"):
		return nil, usage("fence check asks no store, so it takes neither --store nor --config")
	case given("fence") && f.fence <= 0:
		return nil, usage("--fence is a number above 0, not %d", f.fence)
	case f.fence == 0:
		return nil, usage("no fence: give --fence N, or run this inside holdfast run")
	case f.owner == "":
		return nil, usage("no owner: give --owner TEXT, or run this inside holdfast run")
	}
	return argv, nil
}

func (f *fenceCheck) run(ctx context.Context, resource string, argv []string) error {
	var command supervise.Command
	var err error
	if argv != nil {
		if command, err = supervise.Find(argv); err != nil {
			return notStarted(argv, err)
		}
	}
	held, refused := f.show(ctx, resource)
	if held != nil {
		defer held.Release()
	}
	if f.asJSON {
		err = f.write(resource, refused)
	}
	if refused != nil || argv == nil {
		return errors.Join(err, f.refusal(refused))
	}
	// The command inherits the lock: it is let go when the last process ends that
	// has it, even if somebody kills this one.
	if _, err := unix.FcntlInt(held.File().Fd(), unix.F_SETFD, 0); err != nil {
		return err
	}
	return notStarted(argv, command.Exec())
}

// show shows the fence, and keeps the resource closed.
func (f *fenceCheck) show(ctx context.Context, resource string) (*filefence.Held, error) {
	path := f.dir
	if path == "" {
		local, err := sqlitestore.DefaultPath()
		if err != nil {
			return nil, err
		}
		path = filepath.Join(filepath.Dir(local), "fences")
	}
	dir, err := filefence.Open(path)
	if err != nil {
		return nil, err
	}
	if !f.limit.forever {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, f.limit.limit)
		defer cancel()
	}
	return dir.Hold(ctx, resource, f.owner, f.fence)
}

// refusal gives the reason why a fence was not accepted its exit code.
func (f *fenceCheck) refusal(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fences.ErrStale):
		return exitWith(codeLost, "%v", err)
	case errors.Is(err, context.DeadlineExceeded):
		return exitWith(codeHeld, "the resource is still in use by another command, after %v", f.limit.limit)
	case errors.Is(err, os.ErrPermission), errors.Is(err, unix.EROFS), errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return exitWith(codeRefused, "%v", err)
	default:
		return exitWith(codeMisconfigured, "%v", err)
	}
}

// outcome returns what the resource has answered, and the largest fence that it
// has seen. It has no name if there was no answer.
func (f *fenceCheck) outcome(refused error) (name string, newest int64) {
	var stale *fences.StaleError
	switch {
	case refused == nil:
		return "newest", f.fence
	case errors.As(refused, &stale):
		return "stale", stale.Newest
	case errors.Is(refused, fences.ErrConflict):
		return "conflict", f.fence
	}
	return "", 0
}

// write writes the outcome as JSON, if there is one.
func (f *fenceCheck) write(resource string, refused error) error {
	outcome, newest := f.outcome(refused)
	if outcome == "" {
		return nil
	}
	return f.writeJSON(struct {
		Resource string `json:"resource"`
		Fence    int64  `json:"fence"`
		Owner    string `json:"owner"`
		Outcome  string `json:"outcome"`
		Newest   int64  `json:"newest"`
	}{resource, f.fence, f.owner, outcome, newest})
}
