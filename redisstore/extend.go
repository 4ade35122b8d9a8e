package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfastlock/holdfast/driver"
)

// extendChunk is how many leases one run of the script extends: it must not
// keep the server from others for long.
const extendChunk = 100

// keep is how long a companion stays at the least after its lock was acquired;
// the script grant has the same.
const keep = 24 * time.Hour

// companionTTL must be longer than the lease, so that a lock which is held
// always has its companion.
func companionTTL(ttl time.Duration) time.Duration { return max(keep, 2*ttl) }

// Extend implements driver.Store: all requests go in one round trip, one
// script for every 100 leases, or, in a cluster, one for each lease, since
// their keys are in different slots.
func (s *Store) Extend(ctx context.Context, reqs []driver.ExtendRequest) []driver.ExtendResult {
	results := make([]driver.ExtendResult, len(reqs))
	var runs []run
	var sent []int // indexes of the requests in runs, in order
	for i, req := range reqs {
		k, err := keysOf(s.prefix, req.Name)
		if err == nil {
			err = s.restart.allows(req.TTL)
		}
		if err != nil {
			results[i].Err = err
			continue
		}
		sent = append(sent, i)
		runs = append(runs, run{
			keys: []string{k.lock, k.companion()},
			args: []string{req.Token, milliseconds(req.TTL), milliseconds(companionTTL(req.TTL))},
		})
	}
	if len(runs) == 0 {
		return results
	}
	turns := make(chan struct{}, plainAtOnce)
	got, err := s.extendParts(ctx, len(runs), func(from, to int) ([]driver.ExtendResult, error) {
		return either(ctx, s, runs[from].keys[0], func() ([]driver.ExtendResult, error) {
			return s.extendScripted(ctx, runs[from:to])
		}, func() ([]driver.ExtendResult, error) {
			turns <- struct{}{}
			defer func() { <-turns }()
			return s.extendPlain(ctx, reqs, sent[from:to]), nil
		})
	})
	for n, i := range sent {
		if err != nil {
			results[i].Err = err
		} else {
			results[i] = got[n]
		}
	}
	return results
}

// extendParts has some leases extended by part, which is told the first of them and
// the first that is not: all together, or in a cluster each by itself. A node that
// does not answer there, or lacks scripts, has no part in the leases on the others.
// The error is about all of them.
func (s *Store) extendParts(ctx context.Context, leases int,
	part func(from, to int) ([]driver.ExtendResult, error),
) ([]driver.ExtendResult, error) {
	cluster, err := ask(ctx, s.connection, func(_ context.Context, conn Conn) (bool, error) { return conn.Cluster(), nil })
	if err != nil {
		return nil, err
	}
	if !cluster {
		return part(0, leases)
	}
	results := make([]driver.ExtendResult, leases)
	var asking sync.WaitGroup
	for n := range results {
		asking.Go(func() {
			if got, err := part(n, n+1); err != nil {
				results[n].Err = err
			} else {
				results[n] = got[0]
			}
		})
	}
	asking.Wait()
	return results, nil
}

// extendScripted returns a result for each of the runs, in their order, or an
// error that is about all of them, as when there are no scripts.
func (s *Store) extendScripted(ctx context.Context, single []run) ([]driver.ExtendResult, error) {
	var chunks []run
	for leases := range slices.Chunk(single, extendChunk) {
		var whole run
		for _, r := range leases {
			whole.keys = append(whole.keys, r.keys...)
			whole.args = append(whole.args, r.args...)
		}
		chunks = append(chunks, whole)
	}
	return ask(ctx, s.connection, func(ctx context.Context, conn Conn) ([]driver.ExtendResult, error) {
		results := make([]driver.ExtendResult, 0, len(single))
		for i, reply := range callMany(ctx, conn, extendScript, chunks) {
			if errors.Is(reply.Err, errNoScripts) {
				return nil, reply.Err
			}
			results = append(results, s.extendResults(ctx, reply, len(chunks[i].keys)/2)...)
		}
		return results, nil
	})
}

// extendResults reads the answer of one run of the script.
func (s *Store) extendResults(ctx context.Context, reply Reply, leases int) []driver.ExtendResult {
	results := make([]driver.ExtendResult, leases)
	texts, err := reply.texts()
	if err == nil && len(texts) != leases {
		err = fmt.Errorf("extend: %d answers for %d leases", len(texts), leases)
	}
	for i := range results {
		if err != nil {
			results[i].Err = s.connection.failure(ctx, err)
		} else {
			results[i] = s.extendResult(texts[i])
		}
	}
	return results
}

func (s *Store) extendResult(text string) driver.ExtendResult {
	word, eviction, _ := strings.Cut(text, " ")
	answer, known := answers[word]
	switch {
	case !known:
		return driver.ExtendResult{Err: s.connection.refusal(text)}
	case eviction != "":
		return driver.ExtendResult{Answer: answer, Why: evictedKeys(eviction)}
	default:
		return driver.ExtendResult{Answer: answer}
	}
}
