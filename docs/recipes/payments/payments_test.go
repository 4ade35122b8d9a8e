package main

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/holdfastlock/holdfast"
	"github.com/holdfastlock/holdfast/fence/pgxfence"
	"github.com/holdfastlock/holdfast/internal/pgtest"
	"github.com/holdfastlock/holdfast/internal/redistest"
	"github.com/holdfastlock/holdfast/pgstore"
)

//go:embed schema.sql
var schema string

const (
	// payerVariable makes a copy of the test binary the recipe's program. Its
	// value is what happens while a payment is worked out.
	payerVariable = "HOLDFAST_RECIPE_PAYER"
	stands        = "the process stands still"
	goesOn        = "nothing"

	balance  = 1000
	patience = 30 * time.Second
	// brief is the lease of one who will stand still.
	brief = "300ms"
)

func TestMain(m *testing.M) {
	if what := os.Getenv(payerVariable); what != "" {
		if what == stands {
			workOut = standStill
		}
		ways["the lock alone"] = way{"REDIS_URL", byLockAlone}
		main()
		os.Exit(0)
	}
	goleak.VerifyTestMain(pgtest.Main{M: m})
}

// standStill stops the process until it is told to go on. The signal stops some
// thread first, and this one may run on a little while.
func standStill(context.Context) {
	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGCONT)
	_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	<-told
}

// byLockAlone is what the recipe warns of.
func byLockAlone(ctx context.Context, locker *holdfast.Locker, db *pgxpool.Pool, account int64) error {
	return locker.Do(ctx, fmt.Sprint("account:", account), func(ctx context.Context, _ *holdfast.Lease) error {
		ctx = context.WithoutCancel(ctx) // as code that does not look at its context
		return pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error { return payOut(ctx, tx, account) })
	})
}

// bank has one account.
type bank struct {
	server   *pgtest.Server
	database string
	redis    string // URL
}

func newBank(t *testing.T) *bank {
	t.Helper()
	b := &bank{server: pgtest.Shared(t), redis: "redis://" + redistest.Start(t, redistest.Options{}).Addr()}
	b.database = b.server.Database()
	b.server.Exec(b.database, schema+pgstore.Schema()+pgxfence.Schema)
	b.server.Exec(b.database, fmt.Sprint("INSERT INTO account VALUES (7, ", balance, ")"))
	return b
}

// payer is a process that pays the account out.
type payer struct {
	cmd  *exec.Cmd
	said strings.Builder
}

func (b *bank) start(t *testing.T, lock, ttl, what string) *payer {
	t.Helper()
	p := &payer{cmd: exec.Command(os.Args[0], "-lock", lock, "-ttl", ttl, "7")}
	p.cmd.Env = append(os.Environ(), payerVariable+"="+what, "DATABASE_URL="+b.server.URL(b.database), "REDIS_URL="+b.redis)
	p.cmd.Stderr = &p.said
	p.cmd.SysProcAttr = redistest.OwnGroup()
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if p.cmd.ProcessState == nil {
			redistest.KillGroup(p.cmd.Process)
			_ = p.cmd.Wait()
		}
	})
	return p
}

// standsStill waits until the payer has stopped itself.
func (p *payer) standsStill(t *testing.T) {
	t.Helper()
	eventually(t, "it stands still", func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
		_, state, found := strings.Cut(string(stat), ") ")
		return err == nil && found && state[0] == 'T'
	})
}

func (p *payer) goOn(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
}

func (b *bank) value(query string) string { return b.server.Value(b.database, query) }

// payments says how many there were.
func (b *bank) payments() string { return b.value("SELECT count(*)::text FROM payment") }

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for begin := time.Now(); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Since(begin) > patience {
			t.Fatalf("not true after %v: %s", patience, what)
		}
	}
}

func TestAnAccountIsPaidOutOnceHoweverManyTry(t *testing.T) {
	for lock := range ways {
		t.Run(lock, func(t *testing.T) {
			b := newBank(t)
			var payers []*payer
			for range 5 {
				payers = append(payers, b.start(t, lock, "30s", goesOn))
			}
			for _, p := range payers {
				if err := p.cmd.Wait(); err != nil {
					t.Errorf("%v: %s", err, &p.said)
				}
			}
			if got := b.value("SELECT string_agg(amount::text, ' ') FROM payment"); got != fmt.Sprint(balance) {
				t.Errorf("paid %q, want %d once", got, balance)
			}
		})
	}
}

func TestOneThatStandsStillBeyondItsLeaseDoesNotPayBesideItsSuccessor(t *testing.T) {
	for lock := range ways {
		t.Run(lock, func(t *testing.T) {
			b := newBank(t)
			first := b.start(t, lock, brief, stands)
			first.standsStill(t)
			second := b.start(t, lock, "30s", goesOn)
			eventually(t, "the second waits for the transaction of the first", func() bool {
				return b.value("SELECT (count(*) > 0)::text FROM pg_stat_activity WHERE wait_event_type = 'Lock'") == "true"
			})
			first.goOn(t)
			err := first.cmd.Wait() // in time, or told that it has lost the lock
			t.Logf("the first: %v %s", err, &first.said)
			if err := second.cmd.Wait(); err != nil {
				t.Errorf("the second: %v: %s", err, &second.said)
			}
			if n := b.payments(); n != "1" {
				t.Errorf("paid %s times", n)
			}
		})
	}
}

func TestWithTheLockAlonePaymentsAreMadeTwice(t *testing.T) {
	b := newBank(t)
	first := b.start(t, "the lock alone", brief, stands)
	first.standsStill(t)
	second := b.start(t, "the lock alone", "30s", goesOn)
	if err := second.cmd.Wait(); err != nil {
		t.Fatalf("the second: %v: %s", err, &second.said)
	}
	first.goOn(t)
	_ = first.cmd.Wait() // it is told that it lost the lock, too late
	if n := b.payments(); n != "2" {
		t.Errorf("paid %s times: the other tests prove nothing", n)
	}
}

func TestWhatCannotBePaidIsSaid(t *testing.T) {
	b := newBank(t)
	for _, args := range [][]string{{"-lock", "chubby", "7"}, {"-lock", "redis"}, {"8"}} {
		cmd := exec.Command(os.Args[0], args...)
		cmd.Env = append(os.Environ(), payerVariable+"="+goesOn, "DATABASE_URL="+b.server.URL(b.database), "REDIS_URL="+b.redis)
		said, err := cmd.CombinedOutput()
		if err == nil || !strings.HasPrefix(string(said), "payments: ") {
			t.Errorf("%q: %v, %q", args, err, said)
		}
	}
}
