package command

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/holdfastlock/holdfast/open"
)

// build is what is known of how this program was built.
type build struct {
	Version  string `json:"version"`
	Revision string `json:"revision"` // of the source; empty when not known
	Go       string `json:"go"`
	System   string `json:"system"`
	// Local is where the store "local" of this user is.
	Local string `json:"local_store"`
}

func (a *app) versionCommand() *cobra.Command {
	var asJSON, verbose bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Show the version",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usage("version takes no arguments")
			}
			return nil
		},
		RunE: func(*cobra.Command, []string) error {
			b := readBuild()
			if asJSON {
				return a.writeJSON(b)
			}
			if _, err := fmt.Fprintln(a.stdout, "holdfast", b.Version); err != nil || !verbose {
				return err
			}
			_, err := fmt.Fprintf(a.stdout, "revision     %s\ngo           %s %s\nlocal store  %s\n", b.Revision, b.Go, b.System, b.Local)
			return err
		},
	}
	jsonFlag(cmd, &asJSON)
	cmd.Flags().BoolVarP(&verbose, "verbose", "v", false, "also how it was built, and where the local store is")
	return cmd
}

func readBuild() build {
	b := build{Version: "unknown", Go: runtime.Version(), System: runtime.GOOS + "/" + runtime.GOARCH, Local: open.Place(open.Local)}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	b.Version = info.Main.Version
	for _, setting := range info.Settings {
		if setting.Key == "vcs.revision" {
			b.Revision = setting.Value
		}
	}
	return b
}
