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
	if !s.connection.clustered() {
		for n, result := range s.askExtend(ctx, runs) {
			results[sent[n]] = result
		}
		return results
	}
	var asking sync.WaitGroup
	for n, i := range sent {
		asking.Go(func() { results[i] = s.askExtend(ctx, runs[n:n+1])[0] })
	}
	asking.Wait()
	return results
}

// askExtend returns a result for each of the runs, in their order.
func (s *Store) askExtend(ctx context.Context, runs []run) []driver.ExtendResult {
	results, err := ask(ctx, s.connection, func(ctx context.Context, conn Conn) ([]driver.ExtendResult, error) {
		return s.extend(ctx, conn, runs), nil
	})
	if err != nil {
		results = slices.Repeat([]driver.ExtendResult{{Err: err}}, len(runs))
	}
	return results
}

// extend returns a result for each of the runs, in their order.
func (s *Store) extend(ctx context.Context, conn Conn, single []run) []driver.ExtendResult {
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
		results = append(results, s.extendResults(ctx, reply, len(chunks[i].keys)/2)...)
	}
	return results
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
		return driver.ExtendResult{Answer: answer, Why: errors.New("the server has evicted keys: " + eviction)}
	default:
		return driver.ExtendResult{Answer: answer}
	}
}
