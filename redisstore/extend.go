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
// their keys are in different slots. There each is also asked for by itself: a
// node that does not answer has no part in the leases on the others.
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
	got, err := either(s, func() ([]driver.ExtendResult, error) { return s.extendScripted(ctx, runs) },
		func() ([]driver.ExtendResult, error) { return s.extendPlain(ctx, reqs, sent) })
	for n, i := range sent {
		if err != nil {
			results[i].Err = err
		} else {
			results[i] = got[n]
		}
	}
	return results
}

// extendScripted returns a result for each of the runs, in their order, or an
// error that is about all of them.
func (s *Store) extendScripted(ctx context.Context, runs []run) ([]driver.ExtendResult, error) {
	together := func(runs []run) ([]driver.ExtendResult, error) {
		return ask(ctx, s.connection, func(ctx context.Context, conn Conn) ([]driver.ExtendResult, error) {
			return s.extend(ctx, conn, runs)
		})
	}
	if !s.connection.clustered() {
		return together(runs)
	}
	results := make([]driver.ExtendResult, len(runs))
	var asking sync.WaitGroup
	for n := range runs {
		asking.Go(func() {
			if got, err := together(runs[n : n+1]); err != nil {
				results[n].Err = err
			} else {
				results[n] = got[0]
			}
		})
	}
	asking.Wait()
	for _, result := range results {
		if errors.Is(result.Err, errNoScripts) {
			return nil, result.Err
		}
	}
	return results, nil
}

// extend returns a result for each of the runs, in their order, or an error if
// there are no scripts.
func (s *Store) extend(ctx context.Context, conn Conn, single []run) ([]driver.ExtendResult, error) {
	size := extendChunk
	if conn.Cluster() {
		size = 1
	}
	var chunks []run
	for leases := range slices.Chunk(single, size) {
		var whole run
		for _, r := range leases {
			whole.keys = append(whole.keys, r.keys...)
			whole.args = append(whole.args, r.args...)
		}
		chunks = append(chunks, whole)
	}
	results := make([]driver.ExtendResult, 0, len(single))
	for i, reply := range callMany(ctx, conn, extendScript, chunks) {
		if errors.Is(reply.Err, errNoScripts) {
			return nil, reply.Err
		}
		results = append(results, s.extendResults(ctx, reply, len(chunks[i].keys)/2)...)
	}
	return results, nil
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
