package holdfastgocron_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/google/uuid"

	"github.com/holdfastlock/holdfast"
	holdfastgocron "github.com/holdfastlock/holdfast/contrib/gocron"
	"github.com/holdfastlock/holdfast/memstore"
	"github.com/holdfastlock/holdfast/once"
)

// monthly is at two in the morning of the first of each month.
const monthly = "0 2 1 * *"

// twoHosts calls use as each of two hosts would, one after the other.
func twoHosts(use func(host string, locker *holdfast.Locker)) {
	store := memstore.New()
	for _, host := range []string{"web-1", "web-2"} {
		locker, err := holdfast.New(store, holdfast.Config{Owner: host})
		if err != nil {
			panic(err)
		}
		defer locker.Close(context.Background())
		use(host, locker)
	}
}

// newScheduler returns one and a function that starts it, runs its job as the
// crontab would, waits until that was told to the listener, and shuts it down.
func newScheduler() (gocron.Scheduler, func(listener chan struct{})) {
	scheduler, err := gocron.NewScheduler(gocron.WithLocation(time.UTC))
	if err != nil {
		panic(err)
	}
	return scheduler, func(listener chan struct{}) {
		scheduler.Start()
		if err := scheduler.Jobs()[0].RunNow(); err != nil {
			panic(err)
		}
		<-listener
		if err := scheduler.Shutdown(); err != nil {
			panic(err)
		}
	}
}

// Each host has the job; one of them writes the invoices.
func ExampleTask() {
	twoHosts(func(host string, locker *holdfast.Locker) {
		scheduler, runAndShutdown := newScheduler()
		ended := make(chan struct{}, 1)

		_, err := scheduler.NewJob(
			gocron.CronJob(monthly, false),
			holdfastgocron.Task(locker, "invoices", once.Cron(monthly, "UTC"),
				func(ctx context.Context, attempt once.Attempt) error {
					// ctx ends the moment the lease can't be trusted any more.
					fmt.Printf("%s writes the invoices, attempt %d\n", host, attempt.Number)
					return nil
				}),
			gocron.WithEventListeners(
				gocron.AfterJobRunsWithError(func(_ uuid.UUID, _ string, err error) {
					fmt.Println("held, lost or unreachable, or the function's own error:", err)
				}),
				gocron.AfterJobRuns(func(uuid.UUID, string) { ended <- struct{}{} }),
			),
		)
		if err != nil {
			panic(err)
		}
		runAndShutdown(ended)
	})
	// Output: web-1 writes the invoices, attempt 1
}

// A job that is there already gets a locker, and stays as it is.
func ExampleLocker() {
	twoHosts(func(host string, locker *holdfast.Locker) {
		scheduler, runAndShutdown := newScheduler()
		ended := make(chan struct{}, 1)
		writeInvoices := func() {
			fmt.Println(host, "writes the invoices")
			ended <- struct{}{}
		}

		perMonth, err := holdfastgocron.NewLocker(locker, holdfastgocron.LockerConfig{
			Schedule: once.Cron(monthly, "UTC"),
			Failed:   func(job string, err error) { fmt.Println(job, "may run twice:", err) },
		})
		if err != nil {
			panic(err)
		}
		_, err = scheduler.NewJob(
			gocron.CronJob(monthly, false),
			gocron.NewTask(writeInvoices),
			gocron.WithName("invoices"), // the lock's name: the same on all hosts
			gocron.WithDistributedJobLocker(perMonth),
			gocron.WithEventListeners(gocron.AfterLockError(func(_ uuid.UUID, _ string, err error) {
				var skipped *holdfastgocron.SkippedError
				switch {
				case errors.As(err, &skipped):
					fmt.Println(host, "skips, and all is well:", skipped.Result.Outcome)
				case errors.Is(err, holdfast.ErrUnreachable):
					fmt.Println("the store is down, nobody can run it:", err)
				default:
					fmt.Println("not run:", err)
				}
				ended <- struct{}{}
			})),
		)
		if err != nil {
			panic(err)
		}
		runAndShutdown(ended)
	})
	// Output:
	// web-1 writes the invoices
	// web-2 skips, and all is well: already done
}

// One host runs all jobs of its scheduler.
func ExampleElector() {
	twoHosts(func(host string, locker *holdfast.Locker) {
		elector, err := holdfastgocron.NewElector(locker, holdfastgocron.ElectorConfig{
			Name:   "scheduler",
			Failed: func(err error) { fmt.Println("lost, or the store is down:", err) },
		})
		if err != nil {
			panic(err)
		}
		scheduler, err := gocron.NewScheduler(gocron.WithDistributedElector(elector))
		if err != nil {
			panic(err)
		}
		defer scheduler.Shutdown()

		var held *holdfast.HeldError
		switch err := elector.IsLeader(context.Background()); { // as gocron asks at each tick
		case err == nil:
			fmt.Println(host, "leads")
		case errors.As(err, &held):
			fmt.Println(host, "leaves it to", held.Holder.Owner())
		default:
			fmt.Println("nobody can say:", err)
		}
	})
	// Output:
	// web-1 leads
	// web-2 leaves it to web-1
}
