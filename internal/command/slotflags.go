package command

import (
	"errors"
	"time"

	"github.com/spf13/pflag"

	"github.com/holdfastlock/holdfast/driver"
	"github.com/holdfastlock/holdfast/once"
)

// slotFlags are the flags that make run once per slot.
type slotFlags struct {
	text          string
	every         duration
	cron          string
	zone          string
	maxAttempts   int
	atMostOnce    bool
	retryFailed   bool
	startDeadline duration

	// given says that there is a schedule, which says what slot it is.
	given    bool
	schedule once.Schedule
}

func (f *slotFlags) define(flags *pflag.FlagSet) {
	flags.StringVar(&f.text, "slot", "", "run once for this text, such as a date, among all hosts")
	flags.Var(&f.every, "every", "run once in each such time, by the store's clock in UTC: 24h is a day from midnight")
	flags.StringVar(&f.cron, "cron", "", "run once for each occurrence of this crontab expression, by the store's clock")
	flags.StringVar(&f.zone, "tz", "", "time zone of --cron, such as Europe/Paris (default UTC)")
	flags.IntVar(&f.maxAttempts, "max-attempts", 0, "attempts at a slot after crashes and losses (default until it is done)")
	flags.BoolVar(&f.atMostOnce, "at-most-once", false, "never take over a slot that crashed: it is lost")
	flags.BoolVar(&f.retryFailed, "retry-failed", false, "run a slot again whose command ended with another code than 0")
	flags.Var(&f.startDeadline, "start-deadline", "skip a start later than this after the beginning of its slot")
}

// check makes the schedule, and refuses flags that contradict each other or
// make no sense.
func (f *slotFlags) check(given func(flag string) bool) error {
	f.given = given("slot") || given("every") || given("cron")
	if !f.given {
		for _, flag := range []string{"tz", "max-attempts", "at-most-once", "retry-failed", "start-deadline"} {
			if given(flag) {
				return usage("--%s goes with --slot, --every or --cron", flag)
			}
		}
		return nil
	}
	for _, pair := range [][2]string{
		{"slot", "every"}, {"slot", "cron"}, {"every", "cron"},
		{"slot", "tz"}, {"every", "tz"}, {"slot", "start-deadline"},
		{"at-most-once", "max-attempts"}, {"at-most-once", "retry-failed"},
	} {
		if given(pair[0]) && given(pair[1]) {
			return usage("--%s and --%s contradict; give one of them", pair[0], pair[1])
		}
	}
	switch {
	case given("max-attempts") && f.maxAttempts < 1:
		return usage("--max-attempts is at least 1, not %d", f.maxAttempts)
	case f.maxAttempts == 1 && given("retry-failed"):
		return usage("--max-attempts 1 and --retry-failed contradict; give one of them")
	case given("start-deadline") && f.startDeadline == 0:
		return usage("--start-deadline must be more than 0")
	}
	return f.makeSchedule(given)
}

func (f *slotFlags) makeSchedule(given func(flag string) bool) error {
	flag := "slot"
	switch {
	case given("every"):
		if f.every < duration(time.Second) {
			return usage("--every is at least 1s, not %s", &f.every)
		}
		flag, f.schedule = "every", once.Every(time.Duration(f.every))
	case given("cron"):
		if _, err := time.LoadLocation(f.zone); err != nil {
			return usage("--tz: %v", err)
		}
		flag, f.schedule = "cron", once.Cron(f.cron, f.zone)
	default:
		f.schedule = once.Slot(f.text)
	}
	if err := f.schedule.Err(); err != nil {
		var why *driver.Error
		if errors.As(err, &why) {
			err = why.Err // the kind is clear: bad usage
		}
		return usage("--%s: %v", flag, err)
	}
	return nil
}

// options are those for once.Run.
func (f *slotFlags) options(w wait, purpose string) []once.Option {
	options := []once.Option{once.Purpose(purpose)}
	switch {
	case w.forever:
		options = append(options, once.StandBy(once.Forever))
	case w.limit > 0:
		options = append(options, once.StandBy(w.limit))
	}
	switch {
	case f.atMostOnce:
		options = append(options, once.AtMostOnce())
	case f.maxAttempts > 0:
		options = append(options, once.MaxAttempts(f.maxAttempts))
	}
	if f.retryFailed {
		options = append(options, once.RetryFailed())
	}
	if f.startDeadline > 0 {
		options = append(options, once.StartDeadline(time.Duration(f.startDeadline)))
	}
	return options
}
