package main

import (
	"context"
	"errors"

	"github.com/holdfastlock/holdfast/torture/history"
	"github.com/holdfastlock/holdfast/torture/worker"
)

// peer is a library that is put to the work.
type peer struct {
	name   string
	module string // whose version is shown
	// settings and belief are for readers: how it is used, and what tells its
	// user that the lock is held.
	settings, belief string
	// open is nil for holdfast itself, whose worker the harness builds.
	open worker.Open
}

const goRedisSettings = "go-redis with timeouts of 500 ms for an answer and 1 s to connect, else as by default (3 retries, ContextTimeoutEnabled off); "

// ownRenewal says what is added to a library that does not renew.
const ownRenewal = "renewed at a third of the TTL by code of ours, each time until the old deadline at the most; "

const (
	rueidislockSettings = "rueidis with 500 ms for an answer and 1 s to connect, always pipelined; one server (KeyMajority 1), NoLoopTracking, KeyValidity the TTL; renewed by itself at its default, half the TTL; TryNextAfter a quarter of the TTL, since the default leaves 20 ms; waits by WithContext"
	rueidislockBelief   = "until its context ends: it has no deadline"
)

// peers are tortured in this order.
var peers = []peer{
	{
		name: "holdfast", module: "github.com/holdfastlock/holdfast",
		settings: "defaults: rueidis with 500 ms for an answer and 1 s to connect; renewed by itself at a third of the TTL; waits in a queue at the server",
		belief:   "until Deadline, or its context ends",
	},
	{
		name: "redislock", module: "github.com/bsm/redislock", open: openRedislock(false),
		settings: goRedisSettings + ownRenewal + "waits by Obtain with LinearBackoff(100 ms)",
		belief:   "for the TTL from the return of Obtain or Refresh, as its README reads, or until Refresh says ErrNotObtained",
	},
	{
		name: "redislock-careful", module: "github.com/bsm/redislock", open: openRedislock(true),
		settings: goRedisSettings + ownRenewal + "waits by a single Obtain each 100 ms",
		belief:   "for the TTL from before the call of Obtain or Refresh, as its README does not say, or until Refresh says ErrNotObtained",
	},
	{
		name: "redsync", module: "github.com/go-redsync/redsync/v4", open: openRedsync,
		settings: goRedisSettings + ownRenewal + "one server; WithTimeoutFactor(0.25), since the default leaves 50 ms at this TTL; waits by Lock with its default delays of 50 to 250 ms, until the context ends",
		belief:   "until Until, or Extend says ErrTaken",
	},
	{
		name: "rueidislock", module: "github.com/redis/rueidis", open: openRueidislock(false),
		settings: rueidislockSettings,
		belief:   rueidislockBelief,
	},
	{
		name: "rueidislock-px", module: "github.com/redis/rueidis", open: openRueidislock(true),
		settings: "as rueidislock, with FallbackSETPX",
		belief:   rueidislockBelief,
	},
}

// environment names the variable that says which peer a worker is to be.
const environment = "HOLDFAST_PEER"

func find(name string) (peer, error) {
	for _, p := range peers {
		if p.name == name {
			return p, nil
		}
	}
	return peer{}, errors.New("there is no peer " + name)
}

// outcome sorts the errors that are not a library's own.
func outcome(err error) history.Outcome {
	switch {
	case err == nil:
		return history.OK
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return history.Cancelled
	default:
		return history.Unreachable
	}
}
