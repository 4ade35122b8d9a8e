package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"strconv"

	"github.com/holdfastlock/holdfast"
)

// Settings of redis-benchmark.
const (
	limitRequests    = 100_000
	limitConnections = 16
	limitPipeline    = 64
	// limitKeys is from how many keys each request chooses one: ten times as many
	// as there are requests, so that few are chosen twice.
	limitKeys = 10 * limitRequests
	// limitHeld is the same where the keys must exist first.
	limitHeld  = 4 * limitRequests
	heldAtOnce = 10_000
)

// limitResult is how many commands the server can do a second.
type limitResult struct {
	What      string
	PerSecond float64
}

// measureLimit lets redis-benchmark send what holdfast sends, as fast as it can.
// It returns nothing if redis-benchmark is not installed.
func measureLimit(ctx context.Context, s *server) ([]limitResult, error) {
	fenced, err := record(ctx, s.addr)
	if err != nil {
		return nil, err
	}
	unfenced, err := record(ctx, s.addr, holdfast.WithoutFence())
	if err != nil {
		return nil, err
	}
	var results []limitResult
	for _, m := range []struct {
		what    string
		words   []string
		prepare func(context.Context) error
		keys    int
	}{
		{"acquire", fenced.acquire, s.flush, limitKeys},
		{"acquire WithoutFence", unfenced.acquire, s.flush, limitKeys},
		{"release", unfenced.release, func(ctx context.Context) error { return s.holdMany(ctx, unfenced.acquire) }, limitHeld},
	} {
		if err := m.prepare(ctx); err != nil {
			return nil, err
		}
		rate, err := s.benchmark(ctx, m.keys, m.words)
		if errors.Is(err, exec.ErrNotFound) {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("redis-benchmark, %s: %w", m.what, err)
		}
		results = append(results, limitResult{m.what, rate})
	}
	return results, s.flush(ctx)
}

// holdMany makes the keys that redis-benchmark may choose, as the bare command
// does.
func (s *server) holdMany(ctx context.Context, acquire []string) error {
	if err := s.flush(ctx); err != nil {
		return err
	}
	const script = `for i = ARGV[1], ARGV[1] + ARGV[2] - 1 do
		redis.call('SET', string.gsub(ARGV[3], '` + placeholder + `', string.format('%012d', i)), ARGV[4], 'PX', 3600000)
	end
	return 1`
	key, token := acquire[1], acquire[2]
	// In portions, for each of which the server does not answer.
	for first := 0; first < limitHeld; first += heldAtOnce {
		eval := s.admin.B().Eval().Script(script).Numkeys(0).Arg(strconv.Itoa(first), strconv.Itoa(heldAtOnce), key, token).Build()
		if err := s.admin.Do(ctx, eval).Error(); err != nil {
			return err
		}
	}
	return nil
}

// benchmark returns the rate at which the server does the command.
func (s *server) benchmark(ctx context.Context, keys int, words []string) (float64, error) {
	_, port, err := net.SplitHostPort(s.addr)
	if err != nil {
		return 0, err
	}
	args := append([]string{
		"-p", port, "--csv", "-n", strconv.Itoa(limitRequests), "-c", strconv.Itoa(limitConnections),
		"-P", strconv.Itoa(limitPipeline), "-r", strconv.Itoa(keys),
	}, words...)
	var out, complaint bytes.Buffer
	command := exec.CommandContext(ctx, "redis-benchmark", args...)
	command.Stdout, command.Stderr = &out, &complaint
	if err := command.Run(); err != nil {
		return 0, fmt.Errorf("%w: %s", err, &complaint)
	}
	// A line of titles, and one whose second column is the rate.
	in := csv.NewReader(&out)
	in.LazyQuotes = true
	rows, err := in.ReadAll()
	if err != nil || len(rows) != 2 || len(rows[1]) < 2 {
		return 0, fmt.Errorf("not understood: %q, %w", rows, err)
	}
	return strconv.ParseFloat(rows[1][1], 64)
}
