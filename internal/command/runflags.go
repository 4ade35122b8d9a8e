package command

import (
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/holdfastlock/holdfast"
	"github.com/holdfastlock/holdfast/internal/supervise"
)

// What --on-conflict can be.
const (
	fail = "fail"
	skip = "skip"
)

// What --on-lost can be.
const (
	lostKill = "kill"
	lostTerm = "term"
	lostWarn = "warn"
)

// What --orphans can be.
const (
	orphansRelease = "release"
	orphansWait    = "wait"
	orphansKill    = "kill"
)

var onLost = map[string]supervise.OnLost{
	lostKill: supervise.LostKill, lostTerm: supervise.LostTerm, lostWarn: supervise.LostWarn,
}

var orphans = map[string]supervise.Orphans{
	orphansRelease: supervise.OrphansRelease, orphansWait: supervise.OrphansWait, orphansKill: supervise.OrphansKill,
}

// runFlags are the flags of run.
type runFlags struct {
	ttl          duration
	noWait       bool
	wait         wait
	conflictCode int
	onConflict   string
	killAfter    duration
	killGiven    bool
	holdMin      duration
	maxRuntime   duration
	onLost       string
	orphans      string
	purpose      string
	owner        string
	exportToken  bool
	slot         slotFlags
}

func (f *runFlags) define(cmd *cobra.Command) {
	const ttl = 30 * time.Second
	f.ttl = duration(ttl)
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.Var(&f.ttl, "ttl", "how long the lease lasts unless it is extended")
	flags.BoolVarP(&f.noWait, "no-wait", "n", false, "don't wait for the lock (default)")
	flags.VarP(&f.wait, "wait", "w", "wait this long for the lock")
	flags.IntVarP(&f.conflictCode, "conflict-exit-code", "E", codeHeld, "exit code when another holds the lock")
	flags.StringVar(&f.onConflict, "on-conflict", fail, "when another holds the lock: fail, or skip silently with exit code 0")
	flags.VarP(&f.killAfter, "kill-after", "k", "grace between TERM and KILL (default 5s or a sixth of the ttl, whichever is less)")
	flags.Var(&f.maxRuntime, "max-runtime", "stop the command after this time: TERM, the grace, KILL; exit code 124")
	flags.Var(&f.holdMin, "hold-min", "keep the lock at least this long, even if the command ends sooner")
	flags.StringVar(&f.onLost, "on-lost", lostKill, "when the lock is lost: kill (TERM, the grace, KILL), term, or warn only")
	flags.StringVar(&f.orphans, "orphans", orphansRelease, "processes that outlive the command: release the lock all the same, wait for them, or kill them")
	flags.StringVar(&f.purpose, "purpose", "", "a text for those who find the lock held")
	flags.StringVar(&f.owner, "owner", "", "who holds the lock, for those who find it held (default host/pid)")
	f.slot.define(flags)
	flags.BoolVar(&f.exportToken, "export-token", false, "give the command the lease's token as HOLDFAST_TOKEN")
	completeChoices(cmd, map[string][]string{
		"on-conflict": {fail, skip},
		"on-lost":     {lostKill, lostTerm, lostWarn},
		"orphans":     {orphansRelease, orphansWait, orphansKill},
	})
}

// check refuses flags that contradict each other or can't be kept.
func (f *runFlags) check(cmd *cobra.Command) error {
	given := cmd.Flags().Changed
	f.killGiven = given("kill-after")
	switch {
	case given("no-wait") && f.noWait && given("wait"):
		return usage("--no-wait and --wait contradict; give one of them")
	case f.onConflict != fail && f.onConflict != skip:
		return usage("--on-conflict is %s or %s, not %q", fail, skip, f.onConflict)
	case f.onConflict == skip && given("conflict-exit-code"):
		return usage("--conflict-exit-code and --on-conflict skip contradict; give one of them")
	case f.conflictCode < 0 || f.conflictCode > 255:
		return usage("--conflict-exit-code is 0 to 255, not %d", f.conflictCode)
	}
	if err := f.checkRules(given); err != nil {
		return err
	}
	if err := f.checkTexts(); err != nil {
		return err
	}
	if err := f.slot.check(given); err != nil {
		return err
	}
	return f.checkTTL()
}

// checkRules refuses rules for the command that can't be kept.
func (f *runFlags) checkRules(given func(flag string) bool) error {
	_, knownLoss := onLost[f.onLost]
	_, knownOrphans := orphans[f.orphans]
	switch {
	case !knownLoss:
		return usage("--on-lost is %s, %s or %s, not %q", lostKill, lostTerm, lostWarn, f.onLost)
	case !knownOrphans:
		return usage("--orphans is %s, %s or %s, not %q", orphansRelease, orphansWait, orphansKill, f.orphans)
	case given("max-runtime") && f.maxRuntime == 0:
		return usage("--max-runtime must be more than 0")
	}
	return nil
}

// rules are those that the command is stopped by.
func (f *runFlags) rules() supervise.Rules {
	return supervise.Rules{
		Grace: f.grace(), Slack: f.slack(), Limit: time.Duration(f.maxRuntime),
		OnLost: onLost[f.onLost], Orphans: orphans[f.orphans],
	}
}

// checkTexts refuses what the library would, as bad usage.
func (f *runFlags) checkTexts() error {
	const longestPurpose, longestOwner = 256, 200 // bytes
	switch {
	case len(f.purpose) > longestPurpose || strings.ContainsFunc(f.purpose, unicode.IsControl):
		return usage("--purpose is at most %d bytes without control characters", longestPurpose)
	case len(f.owner) > longestOwner || strings.ContainsFunc(f.owner, spaceOrControl):
		return usage("--owner is at most %d bytes without spaces and control characters", longestOwner)
	}
	return nil
}

func spaceOrControl(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }

// checkTTL refuses a lease too short to be extended twice before the command
// would have to be stopped.
func (f *runFlags) checkTTL() error {
	need := f.grace() + 2*f.extendInterval() + f.slack()
	if f.leaseTTL() >= need {
		return nil
	}
	return usage("--ttl %v is too short: kill-after %v + 2 × extend interval %v + slack %v = %v; give a longer --ttl or a shorter --kill-after",
		f.leaseTTL(), milliseconds(f.grace()), milliseconds(f.extendInterval()), milliseconds(f.slack()), milliseconds(need))
}

func (f *runFlags) leaseTTL() time.Duration { return time.Duration(f.ttl) }

// extendInterval is how often the locker extends a lease.
func (f *runFlags) extendInterval() time.Duration { return f.leaseTTL() / 3 }

// grace is the time between TERM and KILL.
func (f *runFlags) grace() time.Duration {
	if f.killGiven {
		return time.Duration(f.killAfter)
	}
	return min(5*time.Second, f.leaseTTL()/6)
}

// slack is the time between KILL and the end of the lease: for a machine that
// is slow just then.
func (f *runFlags) slack() time.Duration {
	return max(100*time.Millisecond, f.leaseTTL()/50)
}

func milliseconds(d time.Duration) time.Duration { return d.Round(time.Millisecond) }

// options are those for the acquisition.
func (f *runFlags) options() []holdfast.AcquireOption {
	options := []holdfast.AcquireOption{holdfast.WithPurpose(f.purpose)}
	if !f.wait.forever {
		options = append(options, holdfast.WithMaxWait(f.wait.limit))
	}
	return options
}
