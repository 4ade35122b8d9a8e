package command

import (
	"fmt"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfastlock/holdfast"
	"github.com/holdfastlock/holdfast/driver"
	"github.com/holdfastlock/holdfast/once"
)

// slotRecord is the run of a slot in JSON.
type slotRecord struct {
	Slot    string `json:"slot"`
	Outcome string `json:"outcome"` // running, done, lost
	Host    string `json:"host"`
	Started string `json:"started"`
	TookMS  *int64 `json:"took_ms"` // null while it runs
	Attempt int    `json:"attempt"`
	Fence   int64  `json:"fence"`
	Code    *int   `json:"exit_code"` // null unless it is done
}

func (a *app) runsCommand() *cobra.Command {
	var asJSON bool
	limit := 20
	cmd := &cobra.Command{
		Use:   "runs JOB",
		Short: "List the last runs of a job that runs once per slot",
		Long: `Runs lists the last runs of a job that is run with --slot, --every or --cron, the
newest first: who ran which slot, when, how long, and how it ended.`,
		Args: oneName,
		RunE: func(cmd *cobra.Command, args []string) error {
			if limit < 1 || limit > driver.MaxRuns {
				return usage("--limit is 1 to %d, not %d", driver.MaxRuns, limit)
			}
			s, err := a.open(cmd.Context(), holdfast.Config{})
			if err != nil {
				return err
			}
			defer s.close(cmd.Context())
			runs, err := once.Runs(cmd.Context(), s.locker, args[0], limit)
			if err != nil {
				return err
			}
			if asJSON {
				return a.writeJSON(slotRecords(runs))
			}
			return a.writeRuns(runs)
		},
	}
	cmd.Flags().IntVar(&limit, "limit", limit, "how many")
	jsonFlag(cmd, &asJSON)
	return cmd
}

func slotRecords(runs []driver.Run) []slotRecord {
	records := make([]slotRecord, len(runs))
	for i, run := range runs {
		records[i] = slotRecord{
			Slot: run.Slot, Outcome: run.Phase.String(), Host: run.Owner(), Attempt: run.Attempt,
			Fence: run.Fence, Started: run.Began.UTC().Format(time.RFC3339Nano),
		}
		if !run.Ended.IsZero() {
			ms := run.Ended.Sub(run.Began).Milliseconds()
			records[i].TookMS = &ms
		}
		if run.Phase == driver.Done {
			records[i].Code = &runs[i].Code
		}
	}
	return records
}

func (a *app) writeRuns(runs []driver.Run) error {
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "SLOT\tHOST\tSTARTED\tTOOK\tATTEMPT\tOUTCOME\tEXIT CODE")
	for _, run := range runs {
		took, code := "-", "-"
		if !run.Ended.IsZero() {
			took = short(run.Ended.Sub(run.Began)).String()
		}
		if run.Phase == driver.Done {
			code = strconv.Itoa(run.Code)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%s\t%s\n", clean(run.Slot), clean(run.Owner()),
			run.Began.Local().Format(time.DateTime), took, run.Attempt, run.Phase, code)
	}
	return w.Flush() // it keeps the first error of all that was written
}
