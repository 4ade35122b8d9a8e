package command

import (
	"os"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/holdfastlock/holdfast"
)

func (a *app) heldCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "held [NAME]",
		Short: "Ask, inside a run, whether it still holds its lock",
		Long: `Held asks the store whether the lease of HOLDFAST_FENCE still holds the lock of
HOLDFAST_NAME, or of the name given. Exit code 0: it does; 1: it does not.`,
		Args: func(cmd *cobra.Command, args []string) error {
			return oneName(cmd, orOwnName(args))
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			fence := outerFence()
			if fence == 0 {
				return usage("no HOLDFAST_FENCE in the environment: held is for commands started by holdfast run")
			}
			return a.held(cmd, orOwnName(args)[0], fence, asJSON)
		},
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}

// outerFence returns the fence of the run that we are in, or 0.
func outerFence() int64 {
	fence, err := strconv.ParseInt(os.Getenv("HOLDFAST_FENCE"), 10, 64)
	if err != nil {
		return 0
	}
	return max(fence, 0)
}

// orOwnName returns the arguments, or else the name of the run that we are in.
func orOwnName(args []string) []string {
	if name := os.Getenv("HOLDFAST_NAME"); len(args) == 0 && name != "" {
		return []string{name}
	}
	return args
}

func (a *app) held(cmd *cobra.Command, name string, fence int64, asJSON bool) error {
	s, err := a.open(cmd.Context(), holdfast.Config{})
	if err != nil {
		return err
	}
	defer s.close(cmd.Context())
	state, err := s.locker.Inspect(cmd.Context(), name)
	if err != nil {
		return err
	}
	_, holds := holderOf(state, fence)
	if asJSON {
		err = a.writeJSON(struct {
			Name  string `json:"name"`
			Fence int64  `json:"fence"`
			Held  bool   `json:"held"`
		}{name, fence, holds})
	}
	if err == nil && !holds {
		return exitWith(codeNo, "the lease of %s with fence %d no longer holds", clean(name), fence)
	}
	return err
}
