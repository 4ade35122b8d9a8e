package command

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfastlock/holdfast"
	"github.com/holdfastlock/holdfast/open"
	"github.com/holdfastlock/holdfast/pgstore"
)

// schemas are the tables that print shows, all together.
var schemas = []string{pgstore.Schema()}

// schemaPause is the pause before a store that could not be reached is asked
// again.
const schemaPause = 100 * time.Millisecond

func (a *app) schemaCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "schema (print | apply)",
		Short: "Show or make the tables that locks in Postgres need",
		Long: `Locks in Postgres live in tables, which are made once, by a user who may create
them. To do so again changes nothing. Other stores need none.`,
		Args: noSuchSchemaCommand,
		RunE: noSuchSchemaCommand,
	}
	cmd.AddCommand(&cobra.Command{
		Use:   "print",
		Short: "Write the SQL that makes the tables to standard output",
		Args:  noArguments,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprint(a.stdout, strings.Join(schemas, "\n"))
			return err
		},
	}, &cobra.Command{
		Use:   "apply",
		Short: "Make the tables in the database of the store",
		Args:  noArguments,
		RunE:  func(cmd *cobra.Command, _ []string) error { return a.applySchema(cmd.Context()) },
	})
	return cmd
}

func noSuchSchemaCommand(*cobra.Command, []string) error {
	return usage("schema: say print or apply; see holdfast schema --help")
}

func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usage("%s takes no arguments", strings.TrimPrefix(cmd.CommandPath(), "holdfast "))
	}
	return nil
}

// applySchema asks a store that can't be reached again, until --connect-timeout.
func (a *app) applySchema(ctx context.Context) error {
	s, err := a.open(ctx, holdfast.Config{})
	if err != nil {
		return err
	}
	defer s.close(ctx)
	tables, is := s.store.(interface{ ApplySchema(context.Context) error })
	if !is {
		return exitWith(codeMisconfigured, "the store %s needs no tables; only postgres:// does", open.Place(s.url))
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(a.connectTimeout))
	defer cancel()
	for {
		err := tables.ApplySchema(ctx)
		if !errors.Is(err, holdfast.ErrUnreachable) {
			return err
		}
		select {
		case <-time.After(schemaPause):
		case <-ctx.Done():
			return err
		}
	}
}
