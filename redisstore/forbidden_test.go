package redisstore

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfastlock/holdfast/driver"
	"github.com/holdfastlock/holdfast/internal/redistest"
)

// How it is found out what a server forbids, and what is left where that is more
// than scripts.

func TestWhatForbidsScriptsIsToldFromWhatForbidsAKeyOrACommandInThem(t *testing.T) {
	for text, want := range map[string]bool{
		"NOPERM this user has no permissions to run the 'evalsha' command or its subcommand":                  true, // Redis 6.2
		"NOPERM this user has no permissions to run the 'eval' command":                                       true, // 7.0
		"NOPERM User app has no permissions to run the 'evalsha' command":                                     true, // 7.2
		"ERR unknown command 'EVALSHA', with args beginning with: 'ab' '2' ":                                  true,
		"unknown command `evalsha`, with args beginning with: `ab`, `2`, ":                                    true, // as rueidis has it
		"NOPERM User app has no permissions to access the 'lock: run the 'eval' command' key":                 false,
		"NOPERM No permissions to access a key":                                                               false,
		"NOPERM this user has no permissions to run the 'get' command":                                        false,
		"ERR ACL failure in script: User app has no permissions to run the 'eval' command":                    false,
		"ERR Error running script (call to f_12ab): @user_script:1: NOPERM User can't run the 'eval' command": false,
		"NOSCRIPT No matching script. Please use EVAL.":                                                       false,
		"OOM command not allowed when used memory > 'maxmemory'.":                                             false,
		"ERR unknown command 'GET', with args beginning with: 'evalsha' ":                                     false,
	} {
		if got := forbids(ServerError(text), "evalsha", "eval"); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

func TestARightThatIsMissingWithinScriptsDoesNotEndThem(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	with := &meddling{}
	store := spied(t, server, with, "~lock:*", "&lock:*", "+@all", "-hset")
	before := func(commands []Command) {
		if verb := commands[0].Words[0]; verb == "MULTI" {
			t.Errorf("%v was sent", commands[0].Words)
		}
	}
	with.before.Store(&before)
	for range 2 {
		_, err := store.Acquire(within(t), request("x"))
		wantKind(t, err, driver.ErrRefused)
	}
}

func TestRightsThatChangeAreNoticed(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	store := asUser(t, server, "app", "~lock:*", "&lock:*", "+@all")
	scripts := func() bool {
		counts := sent(t, server, func() {
			req := request("x")
			acquire(t, store, req)
			release(t, store, req, driver.Mine)
		})
		return counts["evalsha"]+counts["eval"] > 0
	}
	if !scripts() {
		t.Error("no scripts were run")
	}
	do(t, server, "ACL", "SETUSER", "app", "-@scripting")
	scripts() // finds out, and must not fail
	if scripts() {
		t.Error("scripts are tried each time")
	}
	do(t, server, "ACL", "SETUSER", "app", "+@scripting")
	if scripts() {
		t.Error("scripts are tried again at once")
	}
	age(&store.plain.scripts, lookAgain)
	if !scripts() {
		t.Error("a while later they are not tried again")
	}

	do(t, server, "ACL", "SETUSER", "app", "-@scripting")
	scripts()
	do(t, server, "ACL", "SETUSER", "app", "+@scripting")
	server.Do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
	eventually(t, "they are tried again after a connection was lost", func() bool {
		_, err := store.Inspect(within(t), "x")
		return err == nil && !store.lacks(&store.plain.scripts, "lock:x")
	})
	if !scripts() {
		t.Error("after a connection was lost they are not tried again")
	}
}

func TestWithoutScriptsAndTransactionsThereAreLocksWithoutFences(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	for _, missing := range []string{"-multi", "-exec", "-watch"} {
		with := &meddling{instead: native("DELIFEQ")}
		store := spied(t, server, with, append(scriptless, missing)...)
		for range 2 {
			_, err := store.Acquire(within(t), request("fenced"))
			wantKind(t, err, driver.ErrRefused)
			if text := err.Error(); !strings.Contains(text, "+multi") || !strings.Contains(text, "+eval") {
				t.Errorf("the error does not say what is missing: %v", err)
			}
		}
		if n := number(t, server, "DBSIZE"); n != 0 {
			t.Fatalf("%s: %d keys were written", missing, n)
		}
		req := request("bare")
		req.NoFence = true
		acquire(t, store, req)
		acquire(t, store, req) // again, by the same token
		other := req
		other.Token = request("").Token
		if result, err := store.Acquire(within(t), other); err != nil || result.Granted {
			t.Errorf("a second holder: %+v, %v", result, err)
		}
		extend(t, store, longer(req))
		if left := holder(t, store, "bare").Left; left <= time.Minute {
			t.Errorf("it lasts %v after an extension", left)
		}
		release(t, store, other, driver.Taken)
		answer, err := store.Release(within(t), driver.ReleaseRequest{Name: req.Name, Token: req.Token, Tombstone: time.Minute})
		if err != nil || answer != driver.Mine {
			t.Errorf("release with a tombstone: %v, %v", answer, err)
		}
		release(t, store, req, driver.Gone)
	}
}

func TestWhereNothingCanCompareAReleaseIsRefusedNotBlind(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	store := spied(t, server, &meddling{instead: native("")}, append(scriptless, "-multi")...)
	req := request("bare")
	req.NoFence = true
	acquire(t, store, req)
	_, err := store.Release(within(t), driver.ReleaseRequest{Name: req.Name, Token: req.Token})
	wantKind(t, err, driver.ErrRefused)
	if got := do(t, server, "GET", "lock:bare"); got != req.Token {
		t.Errorf("the lock is %q", got)
	}
}

func TestTransactionsThatAreAllowedAgainAreNoticed(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	for _, missing := range []string{"exec", "multi", "watch"} {
		store := asUser(t, server, "app", append(scriptless, "-"+missing)...)
		_, err := store.Acquire(within(t), request(missing))
		wantKind(t, err, driver.ErrRefused)
		do(t, server, "ACL", "SETUSER", "app", "+"+missing)
		age(&store.plain.transactions, lookAgain/2)
		_, err = store.Acquire(within(t), request(missing)) // which must not renew what is remembered
		wantKind(t, err, driver.ErrRefused)
		age(&store.plain.transactions, lookAgain/2)
		acquire(t, store, request(missing))
	}
}
