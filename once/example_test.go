package once_test

import (
	"context"
	"fmt"
	"log"

	"github.com/holdfastlock/holdfast"
	"github.com/holdfastlock/holdfast/memstore"
	"github.com/holdfastlock/holdfast/once"
)

// Example runs a nightly report from every host's crontab, and yet once a night:
// by whichever host comes first, or takes over from one that crashed.
func Example() {
	ctx := context.Background()
	locker, err := holdfast.New(memstore.New(), holdfast.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer locker.Close(ctx)

	nightly := once.Cron("0 2 * * *", "Europe/Paris")
	for range 3 { // as three hosts would
		result, err := once.Run(ctx, locker, "report", nightly, func(_ context.Context, attempt once.Attempt) error {
			fmt.Println("attempt", attempt.Number)
			return nil
		}, once.StandBy(once.Forever))
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(result.Outcome)
	}
	// Output:
	// attempt 1
	// ran here
	// already done
	// already done
}
