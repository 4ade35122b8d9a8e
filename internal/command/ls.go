package command

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/holdfastlock/holdfast"
	"github.com/holdfastlock/holdfast/driver"
)

// Forms of the list.
const (
	formTable = "table"
	formWide  = "wide"
	formName  = "name"
	formJSON  = "json"
)

// list is one holdfast ls.
type list struct {
	*app
	form    string
	foreign bool
}

func (a *app) lsCommand() *cobra.Command {
	l := &list{app: a}
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "ls [PATTERN]",
		Short: "List the locks that are held",
		Long: `Ls lists the locks that are held. In the pattern * stands for any text and ? for
any one character; a name without them is looked up directly.

With --foreign it lists what looks like a lock in the whole Redis, also those of
other programs and of holdfast behind another prefix. The pattern is then for the
whole key. What a key is, is a guess; NOTE says from what. STATE is held for
holdfast's, foreign for others, and stuck? for one that has no expiry: it was
taken by SETNX, perhaps, by a program that has crashed since.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usage("ls takes one pattern, not %d; quote it so that the shell leaves it alone", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if asJSON && cmd.Flags().Changed("output") && l.form != formJSON {
				return usage("--json and --output %s contradict; give one of them", l.form)
			}
			if asJSON {
				l.form = formJSON
			}
			return l.run(cmd.Context(), args)
		},
	}
	cmd.Flags().StringVarP(&l.form, "output", "o", formTable, "table, wide, name or json")
	cmd.Flags().BoolVar(&l.foreign, "foreign", false, "whatever looks like a lock in the whole Redis, of any program")
	jsonFlag(cmd, &asJSON)
	completeChoices(cmd, map[string][]string{"output": {formTable, formWide, formName, formJSON}})
	return cmd
}

func (l *list) run(ctx context.Context, args []string) error {
	if !slices.Contains([]string{formTable, formWide, formName, formJSON}, l.form) {
		return usage("--output is table, wide, name or json, not %q", l.form)
	}
	s, err := l.open(ctx, holdfast.Config{})
	if err != nil {
		return err
	}
	defer s.close(ctx)
	pattern := "*"
	if len(args) > 0 {
		pattern = args[0]
	}
	if l.foreign {
		return l.runForeign(ctx, s, pattern)
	}
	states, err := l.find(ctx, s, pattern)
	if err != nil {
		return err
	}
	return l.write(states)
}

// find returns the held locks that match, by name.
func (l *list) find(ctx context.Context, s *session, pattern string) ([]driver.State, error) {
	if !strings.ContainsAny(pattern, "*?") {
		state, err := s.locker.Inspect(ctx, pattern)
		if err != nil || len(state.Holders) == 0 {
			return nil, err
		}
		return []driver.State{state}, nil
	}
	lister, ok := s.store.(driver.Lister)
	if !ok {
		return nil, exitWith(codeMisconfigured, "this store can't list its locks; give an exact name")
	}
	ctx, done := l.progress(ctx)
	defer done()
	found := map[string]driver.State{} // a name that changes hands may come twice
	for state, err := range lister.List(ctx, pattern) {
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(state.Holders, driver.Holder.Foreign) {
			found[state.Name] = state
		}
	}
	return slices.SortedFunc(maps.Values(found), func(a, b driver.State) int {
		return cmp.Compare(a.Name, b.Name)
	}), nil
}

func (l *list) write(states []driver.State) error {
	switch l.form {
	case formJSON:
		locks := make([]lock, len(states))
		for i, state := range states {
			locks[i] = lockJSON(state)
		}
		return l.writeJSON(locks)
	case formName:
		for _, state := range states {
			if _, err := fmt.Fprintln(l.stdout, clean(state.Name)); err != nil {
				return err
			}
		}
		return nil
	default:
		return l.writeTable(states)
	}
}

// writeTable writes one line for each holder.
func (l *list) writeTable(states []driver.State) error {
	w := tabwriter.NewWriter(l.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tSTATE\tOWNER\tHELD FOR\tTTL LEFT\tFENCE\tPURPOSE")
	for _, state := range states {
		for _, h := range state.Holders {
			l.writeRow(w, state.Name, h)
		}
	}
	return w.Flush() // it keeps the first error of all that was written
}

func (l *list) writeRow(w io.Writer, name string, h driver.Holder) {
	age := "-"
	if h.Age > 0 {
		age = short(h.Age).String()
	}
	fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", l.cut(name), stands(h.Foreign(), h.Left), l.cut(h.Owner()),
		age, left(h.Left), cmp.Or(fence(h.Fence), "-"), cmp.Or(l.cut(h.Purpose), "-"))
}

// cut shortens a text to what fits in a table that is not wide.
func (l *list) cut(text string) string {
	const most = 40
	runes := []rune(clean(text))
	if l.form == formWide || len(runes) <= most {
		return string(runes)
	}
	return string(runes[:most-1]) + "…"
}
