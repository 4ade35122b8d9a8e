package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfastlock/holdfast"
)

// placeholder stands for a key in recorded commands. It is what redis-benchmark
// replaces by a number.
const placeholder = "__rand_int__"

// recording is what holdfast sends to acquire and to release the placeholder,
// word by word.
type recording struct{ acquire, release []string }

// record lets holdfast acquire and release once, on a name that nobody else
// wants, and listens. The server knows the scripts then.
func record(ctx context.Context, addr string, options ...holdfast.AcquireOption) (recording, error) {
	net, err := newForwarder(addr, 0)
	if err != nil {
		return recording{}, err
	}
	defer net.close()
	h, err := newHoldfast(net.addr(), holdfast.Config{TTL: lockTTL}, options...)
	if err != nil {
		return recording{}, err
	}
	defer h.Close()
	var r recording
	for range 2 { // the first time it connects and makes the server know the scripts
		net.reset()
		release, err := h.Acquire(ctx, placeholder)
		if err != nil {
			return recording{}, err
		}
		acquire := net.last()
		if err := release(ctx); err != nil {
			return recording{}, err
		}
		r = recording{acquire, net.last()}
	}
	if len(r.acquire) == 0 || slices.Equal(r.acquire, r.release) {
		return recording{}, fmt.Errorf("holdfast sent %q and %q", r.acquire, r.release)
	}
	return r, nil
}

// bareLocks is the rueidis client alone, with the options that redisstore sets.
// It sends what was recorded and does nothing else: no new token, no deadline, no
// keep-alive, no retry.
type bareLocks struct {
	client rueidis.Client
	recording
}

func openBare(ctx context.Context, addr string, _ time.Duration) (locks, error) {
	return newBare(ctx, addr)
}

func openBareUnfenced(ctx context.Context, addr string, _ time.Duration) (locks, error) {
	return newBare(ctx, addr, holdfast.WithoutFence())
}

func newBare(ctx context.Context, addr string, options ...holdfast.AcquireOption) (locks, error) {
	recorded, err := record(ctx, addr, options...)
	if err != nil {
		return nil, err
	}
	option := rueidis.ClientOption{
		InitAddress: []string{addr}, AlwaysPipelining: true, DisableRetry: true, DisableCache: true,
		PipelineMultiplex: -1, MaxFlushDelay: 20 * time.Microsecond, ConnWriteTimeout: 500 * time.Millisecond,
	}
	option.Dialer.Timeout, option.Dialer.KeepAlive = time.Second, 250*time.Millisecond
	client, err := rueidis.NewClient(option)
	return &bareLocks{client, recorded}, err
}

func (b *bareLocks) Acquire(ctx context.Context, key string) (func(context.Context) error, error) {
	// A refusal is nil to SET, and an array to the script, which nobody looks at:
	// bare keys have one user each.
	if err := b.send(ctx, b.acquire, key); err != nil {
		return nil, err
	}
	return func(ctx context.Context) error { return b.send(ctx, b.release, key) }, nil
}

func (b *bareLocks) send(ctx context.Context, words []string, key string) error {
	args := make([]string, 0, len(words)-1)
	for _, word := range words[1:] {
		args = append(args, strings.ReplaceAll(word, placeholder, key))
	}
	return b.client.Do(ctx, b.client.B().Arbitrary(words[0]).Args(args...).Build()).Error()
}

func (b *bareLocks) Close() { b.client.Close() }
