package command

import "github.com/spf13/cobra"

// addCompletion adds the command completion, which by itself takes a shell that
// it does not know for a call for help.
func addCompletion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	cmd, _, err := root.Find([]string{"completion"})
	if err != nil {
		panic(err) // cobra has added it
	}
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = func(*cobra.Command, []string) error {
		return usage("completion: say which shell: bash, zsh, fish or powershell")
	}
}

// completeArguments leaves names to the user: to offer those that are held, a
// press of a key would ask a store that may be far away or down. After the name
// of run and fence check comes a command, for which the shell completes files.
func completeArguments(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if (cmd.Name() == "run" || cmd.Name() == "check") && len(args) > 0 {
		return nil, cobra.ShellCompDirectiveDefault
	}
	return nil, cobra.ShellCompDirectiveNoFileComp
}

// completeChoices lets the shell offer the values of flags that have few.
func completeChoices(cmd *cobra.Command, choices map[string][]string) {
	for flag, values := range choices {
		complete := cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)
		if err := cmd.RegisterFlagCompletionFunc(flag, complete); err != nil {
			panic(err) // the flag does not exist
		}
	}
}
