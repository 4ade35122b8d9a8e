package command

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/holdfastlock/holdfast"
	"github.com/holdfastlock/holdfast/driver"
	"github.com/holdfastlock/holdfast/open"
)

func (a *app) showCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show NAME",
		Short: "Show who holds a lock",
		Long:  "Show writes who holds the lock. Exit code 0: it is held; 1: it is free.",
		Args:  oneName,
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := a.open(cmd.Context(), holdfast.Config{})
			if err != nil {
				return err
			}
			defer s.close(cmd.Context())
			state, err := s.locker.Inspect(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return a.show(s, state, asJSON)
		},
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}

func (a *app) show(s *session, state driver.State, asJSON bool) error {
	var err error
	if asJSON {
		err = a.writeJSON(lockJSON(state))
	} else {
		_, err = fmt.Fprintln(a.stdout, lockCard(s, state))
	}
	if err == nil && len(state.Holders) == 0 {
		return &exit{code: codeNo}
	}
	return err
}

// lockCard is what a person wants to know of a lock.
func lockCard(s *session, state driver.State) string {
	var c card
	if len(state.Holders) == 0 {
		c.text.WriteString(clean(state.Name) + " is free")
		c.line("fence", fence(state.Fence))
	} else {
		c.text.WriteString(clean(state.Name) + " is held")
	}
	for _, h := range state.Holders {
		c.holder(h)
	}
	c.line("store", open.Place(s.url))
	return c.text.String()
}
