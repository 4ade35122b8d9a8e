package command

import (
	"bufio"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfastlock/holdfast"
	"github.com/holdfastlock/holdfast/driver"
)

// release is one holdfast release.
type release struct {
	*app
	fence  int64
	force  bool
	reason string
	yes    bool
}

func (a *app) releaseCommand() *cobra.Command {
	r := &release{app: a}
	cmd := &cobra.Command{
		Use:   "release NAME (--fence N | --force --reason TEXT)",
		Short: "Free a lock that another process holds",
		Long: `Release frees the lock if the holder with this fence, as shown by show, has it
still; with --force whoever holds it now. The holder learns of it at its next
renewal, and may work on until then. Exit code 0: it was freed; 1: another or
nobody holds it.`,
		Args: oneName,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := r.check(cmd); err != nil {
				return err
			}
			return r.run(cmd.Context(), args[0])
		},
	}
	flags := cmd.Flags()
	flags.Int64Var(&r.fence, "fence", 0, "fence of the holder")
	flags.BoolVar(&r.force, "force", false, "whoever holds it; asks for the name to be typed again")
	flags.StringVar(&r.reason, "reason", "", "why, with --force")
	flags.BoolVar(&r.yes, "yes", false, "don't ask, with --force")
	return cmd
}

func (r *release) check(cmd *cobra.Command) error {
	given := cmd.Flags().Changed
	switch {
	case r.force && given("fence"):
		return usage("--fence and --force contradict; give one of them")
	case !r.force && !given("fence"):
		return usage("say which holder: --fence N as holdfast show has it, or --force --reason TEXT")
	case !r.force && (given("reason") || given("yes")):
		return usage("--reason and --yes go with --force")
	case !r.force && r.fence < 1:
		return usage("--fence is a number above 0, not %d", r.fence)
	case r.force && strings.TrimSpace(r.reason) == "":
		return usage("--force needs --reason TEXT")
	}
	return nil
}

func (r *release) run(ctx context.Context, name string) error {
	s, err := r.open(ctx, holdfast.Config{})
	if err != nil {
		return err
	}
	defer s.close(ctx)
	state, err := s.locker.Inspect(ctx, name)
	if err != nil {
		return err
	}
	holder, err := r.holder(state)
	if err != nil {
		return err
	}
	if r.force && !r.yes {
		if err := r.confirm(state.Name, holder); err != nil {
			return err
		}
	}
	return r.free(ctx, s, state.Name, holder)
}

// holder returns the one to be released.
func (r *release) holder(state driver.State) (driver.Holder, error) {
	name := clean(state.Name)
	if len(state.Holders) == 0 {
		return driver.Holder{}, exitWith(codeNo, "%s is free", name)
	}
	if r.force {
		return state.Holders[0], nil
	}
	holder, found := holderOf(state, r.fence)
	if !found {
		return holder, exitWith(codeNo, "%s is held by another: %s with fence %d", name, clean(state.Holders[0].Owner()), state.Holders[0].Fence)
	}
	return holder, nil
}

// confirm asks a person to type the name again.
func (r *release) confirm(name string, h driver.Holder) error {
	if !isTerminal(r.stdin) {
		return usage("--force asks for the name to be typed again; without a terminal give --yes")
	}
	fmt.Fprintf(r.stderr, "%s is held by %s, which may be at work. Type the name again to release it: ", clean(name), clean(h.Owner()))
	answer, _ := bufio.NewReader(r.stdin).ReadString('\n')
	if strings.TrimSuffix(answer, "\n") != name {
		return exitWith(codeNo, "that is not the name; nothing was released")
	}
	return nil
}

// free releases exactly this holder: the store compares its token.
func (r *release) free(ctx context.Context, s *session, name string, h driver.Holder) error {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(r.connectTimeout))
	defer cancel()
	answer, err := s.store.Release(ctx, driver.ReleaseRequest{Name: name, Token: h.Token})
	switch {
	case err != nil:
		return err
	case answer != driver.Mine:
		return exitWith(codeNo, "%s changed hands meanwhile; nothing was released", clean(name))
	case r.force:
		r.say("%s was released by force; it was held by %s with fence %d; reason: %s", clean(name), clean(h.Owner()), h.Fence, clean(r.reason))
	}
	return nil
}
