package command

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfastlock/holdfast/internal/doctor"
	"github.com/holdfastlock/holdfast/open"
)

// examination is one holdfast doctor.
type examination struct {
	*app
	ttl, timeout   duration
	strict, asJSON bool

	findings []doctor.Finding
	where    string // of the finding that was written last
	failed   error  // the first failure to write
}

// examined is an examination in JSON.
type examined struct {
	Store string `json:"store"`
	// Fit is whether the exit code is 0.
	Fit      bool             `json:"fit"`
	Findings []doctor.Finding `json:"findings"`
}

func (a *app) doctorCommand() *cobra.Command {
	const ttl, timeout = 30 * time.Second, time.Minute
	e := &examination{app: a, ttl: duration(ttl), timeout: duration(timeout), findings: []doctor.Finding{}}
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Examine whether the store is fit for locks",
		Long: `Doctor looks at how the store is set up, and says what that means for locks: one
line for each thing, and for what is not well also why it matters, and a line to
paste that cures it. It changes nothing.

Exit code 0: nothing failed; 1: something did, or with --strict there is a
warning.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return e.run(cmd.Context()) },
	}
	cmd.Flags().Var(&e.ttl, "ttl", "the lease by which times are judged")
	cmd.Flags().Var(&e.timeout, "timeout", "how long the examination may take")
	cmd.Flags().BoolVar(&e.strict, "strict", false, "exit code 1 for a warning too")
	jsonFlag(cmd, &e.asJSON)
	return cmd
}

func (e *examination) run(ctx context.Context) error {
	url, err := e.chosenStore()
	if err != nil {
		return err
	}
	for flag, value := range map[string]duration{"ttl": e.ttl, "timeout": e.timeout, "connect-timeout": e.connectTimeout} {
		if value <= 0 {
			return usage("--%s must be more than 0", flag)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(e.timeout))
	defer cancel()
	err = doctor.Examine(ctx, url, doctor.Options{
		TTL: time.Duration(e.ttl), ConnectTimeout: time.Duration(e.connectTimeout), Found: e.found,
	})
	if err != nil {
		return err
	}
	return e.end(open.Place(url))
}

// found writes a finding as soon as it is made, so that a store that is slow is
// seen to be.
func (e *examination) found(f doctor.Finding) {
	f.Where, f.Found, f.Why, f.Fix = clean(f.Where), clean(f.Found), clean(f.Why), clean(f.Fix)
	e.findings = append(e.findings, f)
	if e.asJSON {
		return
	}
	if f.Where != e.where {
		e.write("\n%s\n", f.Where)
		e.where = f.Where
	}
	e.write("%-8s %-17s %s\n", f.Severity, f.Check, f.Found)
	for _, line := range []struct{ label, text string }{{"why", f.Why}, {"fix", f.Fix}} {
		if line.text != "" {
			e.write("%26s %s: %s\n", "", line.label, line.text)
		}
	}
}

// write writes to standard output and keeps the first error.
func (e *examination) write(format string, args ...any) {
	if _, err := fmt.Fprintf(e.stdout, format, args...); e.failed == nil {
		e.failed = err
	}
}

// end writes what comes of it all.
func (e *examination) end(place string) error {
	counts := make(map[doctor.Severity]int)
	for _, f := range e.findings {
		counts[f.Severity]++
	}
	fit := counts[doctor.Failure] == 0 && (!e.strict || counts[doctor.Warning] == 0)
	if e.asJSON {
		e.failed = e.writeJSON(examined{place, fit, e.findings})
	} else {
		e.write("\n%s: %s\n", clean(place), sum(counts))
	}
	if e.failed == nil && !fit {
		return &exit{code: codeNo}
	}
	return e.failed
}

// sum says how many findings there are of each severity, the worst first.
func sum(counts map[doctor.Severity]int) string {
	var parts []string
	for _, severity := range []doctor.Severity{doctor.Failure, doctor.Warning, doctor.Note, doctor.OK} {
		switch n := counts[severity]; {
		case n == 0:
		case n == 1 || severity == doctor.OK:
			parts = append(parts, fmt.Sprintf("%d %s", n, severity))
		default:
			parts = append(parts, fmt.Sprintf("%d %ss", n, severity))
		}
	}
	return strings.Join(parts, ", ")
}
