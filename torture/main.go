// Command torture shows what holdfast survives, and what no lock of its kind
// survives: real client processes and real servers under a seeded schedule of
// faults, and checkers over the history of all they did.
//
//	go run ./torture -for 120s
//	go run ./torture -faults list
//	go run ./torture -store postgres -for 120s
//	go run ./torture -store sentinel -for 120s
//
// The same seed makes the same faults at the same times; what clients are doing
// then is chance. Faults come in storms with a calm after each. Those by which a
// server loses data, or ends leases early, give two holders at times: these are
// counted apart, and -faults lossless leaves them out. The servers, a primary and
// its replica, are the run's own; HOLDFAST_TEST_REDIS names another program than
// redis-server. It is for Linux, with gcc.
//
// With Postgres they are a primary, a synchronous standby, and PgBouncer, through
// which every other worker goes. Beside the locks, the workers then have
// registers and a queue of jobs in the database, in transactions of their own: a
// register is read and written under pgstore.Guard, or with a fence, or with
// neither, which is the control; the jobs are taken by pgstore.Claim.
//
// There are more servers of Redis with -store sentinel (three, and three
// sentinels), cluster (three primaries with a replica each), and quorum (five that
// know nothing of one another, whose clocks differ). A promotion may lose the
// latest grants: that two hold a name counts as a documented loss only if the older
// of them asked for it before the old primary was gone, and the younger was granted
// it after the new one took over. The quorum has to keep its promises while a
// minority is away or abstains, and when a majority stands still or crashes. Some
// of its locks are acquired without a fence, which it does in another way: of these,
// too, no two leases may be trusted at once.
//
// It exits with 0 if nothing was violated, 1 if something was, and 2 if the run
// itself failed and says nothing about holdfast.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/holdfastlock/holdfast/torture/worker"
)

func main() {
	if len(os.Args) == 2 && os.Args[1] == worker.Argument {
		worker.Main(openHoldfast)
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(command(ctx, os.Args[1:], os.Stdout, os.Stderr))
}
