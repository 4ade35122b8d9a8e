package holdfastgocron

import (
	"context"
	"errors"

	"github.com/go-co-op/gocron/v2"

	"github.com/holdfastlock/holdfast"
	"github.com/holdfastlock/holdfast/once"
)

// Task is a gocron.Task that runs fn by once.Run: in the slot that the schedule
// has when gocron starts the job, by the store's clock, on one of all hosts that
// have the job under that name. It takes the place of a locker: where the
// scheduler has one, add gocron.WithDisabledDistributedJobLocker(true) to the job,
// or the locker begins the slot and the task finds it begun.
//
// The context of fn ends, with a *holdfast.LostError as its cause, as soon as the
// lease can't be trusted, and when gocron ends the job's, at shutdown. If fn
// returns an error after that, it was cut off: then the slot is not done, and the
// next host that asks for it takes it over.
//
// The error of once.Run goes to gocron.AfterJobRunsWithError as it is. A slot that
// is skipped is no error, and to gocron a run that went well.
func Task(locker *holdfast.Locker, job string, schedule once.Schedule, fn func(ctx context.Context, attempt once.Attempt) error, opts ...once.Option) gocron.Task {
	return gocron.NewTask(func(ctx context.Context) error {
		_, err := once.Run(ctx, locker, job, schedule, func(work context.Context, attempt once.Attempt) error {
			err := fn(work, attempt)
			if err != nil && ctx.Err() != nil {
				return errors.Join(err, once.ErrNotDone)
			}
			return err
		}, opts...)
		return err
	})
}
