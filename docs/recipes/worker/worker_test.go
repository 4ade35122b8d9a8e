package main

import (
	"bytes"
	_ "embed"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfastlock/holdfast/internal/pgtest"
	"github.com/holdfastlock/holdfast/internal/redistest"
)

//go:embed schema.sql
var schema string

// workerVariable makes a copy of the test binary a worker.
const workerVariable = "HOLDFAST_RECIPE_WORKER"

func TestMain(m *testing.M) {
	if os.Getenv(workerVariable) != "" {
		main()
		os.Exit(0)
	}
	goleak.VerifyTestMain(pgtest.Main{M: m})
}

const (
	workers = 8
	jobs    = 10_000
	kills   = 12
)

func TestEachJobIsDoneOnceThoughWorkersAreKilled(t *testing.T) {
	server := pgtest.Shared(t)
	database := server.Database()
	server.Exec(database, schema)
	server.Exec(database, "INSERT INTO job (name) SELECT 'number ' || n FROM generate_series(1, "+strconv.Itoa(jobs)+") n")
	count := func(query string) int {
		t.Helper()
		n, err := strconv.Atoi(server.Value(database, query))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	done := func() int { return count("SELECT count(*)::text FROM job WHERE done IS NOT NULL") }

	team := make([]*worker, workers)
	for i := range team {
		team[i] = start(t, server.URL(database))
	}
	for k := range kills {
		eventually(t, "more is done", func() bool { return done() > jobs*k/(kills+1) })
		i := rand.IntN(workers)
		team[i].end(syscall.SIGKILL)
		team[i] = start(t, server.URL(database))
	}
	eventually(t, "all is done", func() bool { return done() == jobs })
	for _, w := range team {
		if err := w.end(syscall.SIGTERM); err != nil {
			t.Errorf("a worker ended with %v: %s", err, w.output)
		}
	}

	if n := count("SELECT count(*)::text FROM greeting"); n != jobs {
		t.Errorf("%d greetings for %d jobs", n, jobs)
	}
	if n := count("SELECT count(DISTINCT job)::text FROM greeting"); n != jobs {
		t.Errorf("%d of %d jobs have a greeting", n, jobs)
	}
	// A number that was given and is not there was rolled back.
	again := count("SELECT last_value::text FROM greeting_id_seq") - jobs
	t.Logf("%d jobs were begun by a worker that was killed, and done by another", again)
	if again <= 0 {
		t.Error("no kill hit a job: nothing was tested")
	}
}

func TestAJobThatFailsIsTriedAgainLaterAndHoldsUpNoOther(t *testing.T) {
	server := pgtest.Shared(t)
	database := server.Database()
	server.Exec(database, schema+"INSERT INTO job (name) VALUES (''), ('you')")
	w := start(t, server.URL(database))
	is := func(query string) func() bool {
		return func() bool { return server.Value(database, query) == "true" }
	}
	eventually(t, "it failed twice", is("SELECT (failures >= 2)::text FROM job WHERE name = ''"))
	eventually(t, "the other is done", is("SELECT (done IS NOT NULL)::text FROM job WHERE name = 'you'"))
	server.Exec(database, "UPDATE job SET name = 'me', due = now() WHERE name = ''")
	eventually(t, "both are done", is("SELECT bool_and(done IS NOT NULL)::text FROM job"))
	if err := w.end(syscall.SIGTERM); err != nil {
		t.Errorf("it ended with %v: %s", err, w.output)
	}
}

type worker struct {
	cmd    *exec.Cmd
	output *bytes.Buffer
	ended  bool
}

func start(t *testing.T, url string) *worker {
	t.Helper()
	w := &worker{cmd: exec.Command(os.Args[0], "-poll", "100ms"), output: new(bytes.Buffer)}
	w.cmd.Env = append(os.Environ(), workerVariable+"=1", "DATABASE_URL="+url)
	w.cmd.SysProcAttr = redistest.OwnGroup()
	w.cmd.Stdout, w.cmd.Stderr = w.output, w.output
	if err := w.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.end(syscall.SIGKILL) })
	return w
}

func (w *worker) end(how os.Signal) error {
	if w.ended {
		return nil
	}
	w.ended = true
	w.cmd.Process.Signal(how)
	return w.cmd.Wait()
}

// eventually waits for what must come true; the limit is no measure of speed.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); !condition(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("never came true: " + what)
		}
	}
}
