package main

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"

	"github.com/holdfastlock/holdfast/internal/pgtest"
	"github.com/holdfastlock/holdfast/internal/redistest"
	"github.com/holdfastlock/holdfast/pgstore"
)

// raceOptions make a program built with -race end without a pause of a second.
const raceOptions = "atexit_sleep_ms=0"

// TestMain makes the test binary serve as the programs of the tests, too: the
// real command, and a job for it to run.
func TestMain(m *testing.M) {
	must(os.Setenv("GORACE", raceOptions))
	testscript.Main(leakFree{m}, map[string]func(){
		"holdfast": func() { skewClock(); main() },
		"job":      job,
	})
}

// leakFree fails the tests if goroutines are left.
type leakFree struct{ *testing.M }

func (l leakFree) Run() int {
	code := pgtest.Main{M: l.M}.Run()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	return code
}

func TestScriptsThatNeedNoStore(t *testing.T) {
	testscript.Run(t, parameters("testdata/script", func(*testscript.Env) string { return "" }))
}

func TestScriptsOnTheEmbeddedStore(t *testing.T) {
	testscript.Run(t, parameters("testdata/script/store", func(env *testscript.Env) string {
		return "sqlite://" + filepath.Join(env.WorkDir, "locks.db")
	}))
}

func TestScriptsOnRedis(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	testscript.Run(t, parameters("testdata/script/store", func(env *testscript.Env) string {
		// Scripts run at the same time, each under a prefix of its own.
		return server.URL() + "?prefix=" + filepath.Base(env.WorkDir) + ":"
	}))
}

func TestScriptsAboutRedis(t *testing.T) {
	server := redistest.Start(t, redistest.Options{Password: "hunter2", MaxMemory: "100mb", Args: []string{"--maxmemory-policy", "allkeys-lru"}})
	testscript.Run(t, parameters("testdata/script/redis", func(env *testscript.Env) string {
		env.Setenv("ADDR", server.Addr())
		return ""
	}))
}

func TestScriptsOnPostgres(t *testing.T) {
	server := pgtest.Shared(t)
	testscript.Run(t, parameters("testdata/script/store", func(env *testscript.Env) string {
		// Scripts run at the same time, each in a schema of its own.
		schema := filepath.Base(env.WorkDir)
		sql := fmt.Sprintf("CREATE SCHEMA %q; SET search_path = %[1]q;", schema) + pgstore.Schema()
		must(server.Process.Exec(pgtest.User, sql))
		return server.URL(pgtest.User) + "&search_path=" + url.QueryEscape(fmt.Sprintf("%q", schema))
	}))
}

func TestScriptsAboutPostgres(t *testing.T) {
	server := pgtest.Start(t, pgtest.Options{Password: "hunter2"})
	testscript.Run(t, parameters("testdata/script/postgres", func(env *testscript.Env) string {
		database := filepath.Base(env.WorkDir)
		must(server.Process.Exec(pgtest.User, fmt.Sprintf("CREATE DATABASE %q", database)))
		env.Setenv("ADDR", server.Addr())
		env.Setenv("DATABASE", database)
		env.Setenv("SQL", server.URL(database))
		return server.URL(database)
	}))
}

// sql runs SQL in the database of $SQL: sql TEXT, or sql stdout for what the last
// program wrote.
func sql(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: sql TEXT|stdout")
	}
	text := args[0]
	if text == "stdout" {
		text = ts.ReadFile(text)
	}
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, ts.Getenv("SQL"))
	ts.Check(err)
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, text)
	ts.Check(err)
}

// parameters are those for the scripts in a folder; each finds its store in
// HOLDFAST_STORE, and has a home of its own.
func parameters(dir string, store func(*testscript.Env) string) testscript.Params {
	return testscript.Params{
		Dir: dir,
		Setup: func(env *testscript.Env) error {
			env.Setenv("GORACE", raceOptions)
			env.Setenv("HOME", env.WorkDir)
			env.Setenv("XDG_STATE_HOME", filepath.Join(env.WorkDir, "state"))
			env.Setenv("XDG_CONFIG_HOME", filepath.Join(env.WorkDir, "config"))
			env.Setenv("HOLDFAST_STORE", store(env))
			return nil
		},
		Condition: func(name string) (bool, error) {
			if name != "root" {
				return false, fmt.Errorf("unknown condition %q", name)
			}
			return os.Geteuid() == 0, nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"await": await, "code": code, "sql": sql},
	}
}

// await waits until a file exists: await FILE.
func await(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: await FILE")
	}
	if err := until(func() bool { return exists(ts.MkAbs(args[0])) }); err != nil {
		ts.Fatalf("%s: %v", args[0], err)
	}
}

// code runs a program and checks its exit code: code N PROGRAM ARG...
func code(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: code N PROGRAM [ARG...]")
	}
	got := "exit status 0"
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		got = err.Error()
	}
	if want := "exit status " + args[0]; got != want {
		ts.Fatalf("%s: %s, want %s", strings.Join(args[1:], " "), got, want)
	}
}
