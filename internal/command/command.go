// Package command is the holdfast command: flags, messages and exit codes, one
// file for each sub-command. It decides nothing about locks, which is the
// library's, nor about processes, which is supervise's.
package command

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// app is one run of the command.
type app struct {
	stdin, stdout, stderr *os.File

	// Flags of all sub-commands.
	store          string
	config         string
	connectTimeout duration
}

// Main runs the command with the arguments that follow its name and returns its
// exit code. It writes its messages to stderr; stdout is for what was asked
// for, and with run it belongs to the child. A context that ends, ends the wait
// for a lock but not a child.
func Main(ctx context.Context, args []string, stdin, stdout, stderr *os.File) int {
	a := &app{stdin: stdin, stdout: stdout, stderr: stderr}
	root := a.root()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	return a.report(root.ExecuteContext(ctx))
}

// Tree returns the commands with their flags and texts, to be described and not
// to be run.
func Tree() *cobra.Command {
	return new(app).root()
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "holdfast",
		Short: "Run a command under a lock with a lease",
		Long: `Holdfast runs a command under a lock that is shared by many machines, keeps the
lock's lease alive while the command runs, and stops the command if the lease
can't be kept. The locks live in Redis or Valkey, in Postgres, or in a file for
one machine.`,
		Example: `  holdfast run --store local nightly-report -- ./report.sh
  holdfast run --store redis://db1 --on-conflict skip nightly-report -- ./report.sh
  holdfast show --store redis://db1 nightly-report`,
		SilenceErrors: true,
		SilenceUsage:  true,
		// Of suggestions for a command that does not exist.
		SuggestionsMinimumDistance: 2,
		Args:                       noSuchCommand,
		RunE:                       noSuchCommand,
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usage("%v; see %s --help", err, cmd.CommandPath())
	})
	const connectTimeout = 5 * time.Second
	a.connectTimeout = duration(connectTimeout)
	flags := root.PersistentFlags()
	flags.StringVar(&a.store, "store", "", "where the locks live: local, sqlite:///path/file.db, redis://host, rediss://host, unix:///path/redis.sock, postgres://host/database (default $HOLDFAST_STORE, else the config file)")
	flags.StringVar(&a.config, "config", "", "config file (default $XDG_CONFIG_HOME/holdfast/config.toml, else "+systemConfig+")")
	flags.Var(&a.connectTimeout, "connect-timeout", "how long to try a store that can't be reached")
	root.AddCommand(a.runCommand(), a.showCommand(), a.lsCommand(), a.heldCommand(), a.releaseCommand(),
		a.runsCommand(), a.waitCommand(), a.fenceCommand(), a.schemaCommand(), a.doctorCommand(), a.versionCommand())
	for _, cmd := range root.Commands() {
		cmd.ValidArgsFunction = completeArguments
	}
	addCompletion(root)
	return root
}

// noSuchCommand answers everything that is not a sub-command.
func noSuchCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return usage("name a command, such as run; see holdfast --help")
	}
	hint := "see holdfast --help"
	if similar := cmd.SuggestionsFor(args[0]); len(similar) > 0 {
		hint = "did you mean " + strings.Join(similar, " or ") + "?"
	}
	return usage("unknown command %q; %s", args[0], hint)
}

// say writes one message.
func (a *app) say(format string, args ...any) {
	fmt.Fprintf(a.stderr, "holdfast: "+format+"\n", args...)
}

// oneName checks that a sub-command got one argument, the name of a lock.
func oneName(cmd *cobra.Command, args []string) error {
	switch len(args) {
	case 0:
		return usage("%s needs the name of a lock; see %[1]s --help", cmd.CommandPath())
	case 1:
		return nil
	default:
		return usage("%s takes one name, not %d arguments; see %[1]s --help", cmd.CommandPath(), len(args))
	}
}
