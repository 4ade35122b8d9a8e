package pgstore_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfastlock/holdfast"
	"github.com/holdfastlock/holdfast/internal/redistest"
	"github.com/holdfastlock/holdfast/pgstore"
)

// writerVariable makes a copy of the test binary write to the database whose URL
// it is, guarded, unless unguardedVariable is set.
const (
	writerVariable    = "HOLDFAST_PGSTORE_WRITER"
	unguardedVariable = "HOLDFAST_PGSTORE_UNGUARDED"
)

// In init, since TestMain is for the tests of the store, too.
func init() {
	url := os.Getenv(writerVariable)
	if url == "" {
		return
	}
	if err := write(context.Background(), url, os.Getenv(unguardedVariable) == ""); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(1)
}

// write keeps adding entries to a ledger, each numbered one higher than the last
// that it has read, for as long as the process lives.
func write(ctx context.Context, url string, guarded bool) error {
	store, err := pgstore.Open(url, pgstore.Config{})
	if err != nil {
		return err
	}
	locker, err := holdfast.New(store, holdfast.Config{TTL: shortTTL})
	if err != nil {
		return err
	}
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return err
	}
	for {
		lease, err := locker.Acquire(ctx, "ledger")
		if err != nil {
			continue
		}
		err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			if guarded {
				if err := pgstore.Guard(ctx, tx, lease); err != nil {
					return err
				}
			}
			return enter(ctx, tx, lease.Fence())
		})
		if err == nil {
			lease.Release(ctx)
		}
	}
}

// enter reads, works for a while, and writes.
func enter(ctx context.Context, tx pgx.Tx, fence int64) error {
	var last int
	if err := tx.QueryRow(ctx, "SELECT coalesce(max(number), 0) FROM entry").Scan(&last); err != nil {
		return err
	}
	time.Sleep(rand.N(20 * time.Millisecond))
	_, err := tx.Exec(ctx, "INSERT INTO entry (number, fence) VALUES ($1, $2)", last+1, fence)
	return err
}

// A number that two entries have is an update that was lost. Fences that are not
// in the order of the numbers are holders that overtook each other.
const (
	ledger = "CREATE TABLE entry (number int, fence bigint)"
	lost   = "SELECT count(*)::text FROM (SELECT FROM entry GROUP BY number HAVING count(*) > 1) AS twice"
	mixed  = `SELECT count(*)::text FROM (SELECT fence <= lag(fence) OVER (ORDER BY number) AS back FROM entry) AS e WHERE back`
)

// writers is two processes that write to one ledger.
type writers struct {
	*database
	processes []*exec.Cmd
}

func startWriters(t *testing.T, env ...string) *writers {
	t.Helper()
	w := &writers{database: newLocksDatabase(t)}
	w.server.Exec(w.name, ledger)
	for range 2 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(append(os.Environ(), writerVariable+"="+w.url), env...)
		cmd.SysProcAttr = redistest.OwnGroup()
		output := new(bytes.Buffer)
		cmd.Stdout, cmd.Stderr = output, output
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			cmd.Process.Kill()
			cmd.Wait()
			if output.Len() > 0 {
				t.Errorf("a writer said: %s", output)
			}
		})
		w.processes = append(w.processes, cmd)
	}
	return w
}

func (w *writers) count(t *testing.T, query string) (n int) {
	t.Helper()
	fmt.Sscan(w.server.Value(w.name, query), &n)
	return n
}

func (w *writers) entries(t *testing.T) int {
	t.Helper()
	return w.count(t, "SELECT count(*)::text FROM entry")
}

// pause stops one of the processes at any moment, until its lease has ended at
// the server, if it had one, and the other has written or waits for it; and says
// whether it waits.
func (w *writers) pause(t *testing.T) (waits bool) {
	t.Helper()
	process := w.processes[rand.IntN(len(w.processes))].Process
	process.Signal(syscall.SIGSTOP)
	defer process.Signal(syscall.SIGCONT)
	begin, before := time.Now(), w.entries(t)
	eventually(t, "the other goes on, or waits", func() bool {
		waits = w.server.Value(w.name, waiting+" AND datname = current_database()") != "0"
		return time.Since(begin) > shortTTL && (waits || w.entries(t) > before+1)
	})
	return waits
}

func TestAPausedHoldersTransactionAndTheNextOnesAreNeverBothCommitted(t *testing.T) {
	w := startWriters(t)
	rounds, waited := 0, 0
	for rounds < 12 || waited < 3 || rounds == waited {
		before := w.entries(t)
		eventually(t, "entries are made", func() bool { return w.entries(t) > before })
		rounds++
		if w.pause(t) {
			waited++
		}
		if rounds == 100 {
			t.Fatalf("in %d of %d pauses the other waited: nothing was tested", waited, rounds)
		}
	}
	before := w.entries(t)
	eventually(t, "entries are made after the pauses", func() bool { return w.entries(t) > before+10 })
	if n, m := w.count(t, lost), w.count(t, mixed); n != 0 || m != 0 {
		t.Errorf("%d numbers were given twice, %d fences are out of order", n, m)
	}
	t.Logf("%d entries, %d pauses, in %d of them the other waited for the one that was paused", w.entries(t), rounds, waited)
}

// This shows that the test above can fail, and what a lease alone does not give.
func TestWithoutGuardAPausedHolderOverwritesItsSuccessor(t *testing.T) {
	w := startWriters(t, unguardedVariable+"=1")
	eventually(t, "an update is lost", func() bool {
		w.pause(t)
		return w.count(t, lost) > 0
	})
}
