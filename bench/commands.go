package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfastlock/holdfast"
	"github.com/holdfastlock/holdfast/driver"
)

const (
	// turnLag is how long the network of this measurement delays each reply.
	turnLag = 20 * time.Millisecond
	// commandReps is how often each operation is done.
	commandReps = 10
	// manyLeases are more than one run of the script extends.
	manyLeases = 250
)

// commandsResult is what one operation costs the server.
type commandsResult struct {
	Operation  string
	Reps       int
	Sent       counts // what the client sent
	Inner      counts // what the scripts ran
	RoundTrips int
	Took       time.Duration // for all repetitions, of which each round trip waits turnLag
}

// operations is a holdfast whose commands are counted.
type operations struct {
	server *server
	net    *forwarder
	store  driver.Store
	locker *holdfast.Locker
	leases []*holdfast.Lease // for the releases
	bare   []*holdfast.Lease
}

func measureCommands(ctx context.Context, s *server) ([]commandsResult, error) {
	net, err := newForwarder(s.addr, turnLag)
	if err != nil {
		return nil, err
	}
	defer net.close()
	h, err := newHoldfast(net.addr(), holdfast.Config{TTL: lockTTL})
	if err != nil {
		return nil, err
	}
	defer h.Close()
	o := &operations{server: s, net: net, store: h.store, locker: h.locker}
	held, err := o.warmUp(ctx)
	if err != nil {
		return nil, err
	}
	return o.all(ctx, held)
}

// all measures the operations in the order of a lease's life.
func (o *operations) all(ctx context.Context, held []driver.ExtendRequest) ([]commandsResult, error) {
	var results []commandsResult
	for _, operation := range []struct {
		name string
		do   func(i int) error
	}{
		{"acquire", func(i int) error { return o.acquire(ctx, &o.leases, i) }},
		{"TryAcquire of a held name", func(int) error { return o.contended(ctx, held[0].Name) }},
		{"extend", func(i int) error { return o.leases[i].Confirm(ctx) }},
		{fmt.Sprintf("extend %d leases", manyLeases), func(int) error { return o.extend(ctx, held) }},
		{"release", func(i int) error { return o.leases[i].Release(ctx) }},
		{"acquire WithoutFence", func(i int) error { return o.acquire(ctx, &o.bare, i, holdfast.WithoutFence()) }},
		{"TryAcquire of a held name WithoutFence", func(int) error { return o.contended(ctx, held[0].Name, holdfast.WithoutFence()) }},
		{"release of such a lease", func(i int) error { return o.bare[i].Release(ctx) }},
	} {
		result, err := o.count(ctx, operation.do)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", operation.name, err)
		}
		result.Operation = operation.name
		results = append(results, result)
	}
	return results, nil
}

func (o *operations) count(ctx context.Context, do func(i int) error) (commandsResult, error) {
	if err := o.server.resetCounts(ctx); err != nil {
		return commandsResult{}, err
	}
	o.net.reset()
	began := time.Now()
	for i := range commandReps {
		if err := do(i); err != nil {
			return commandsResult{}, err
		}
	}
	took := time.Since(began)
	all, err := o.server.counts(ctx)
	delete(all, "ping")
	sent, turns := o.net.counted()
	return commandsResult{Reps: commandReps, Sent: sent, Inner: all.without(sent), RoundTrips: turns, Took: took}, err
}

// warmUp connects, makes the server remember the scripts, and takes the leases
// that are extended together.
func (o *operations) warmUp(ctx context.Context) ([]driver.ExtendRequest, error) {
	held := make([]driver.ExtendRequest, manyLeases)
	var errs = make(chan error, manyLeases)
	for i := range held {
		go func() {
			lease, err := o.locker.Acquire(ctx, fmt.Sprint("held:", i))
			if err == nil {
				held[i] = driver.ExtendRequest{Name: lease.Name(), Token: lease.Token(), TTL: lockTTL}
			}
			errs <- err
		}()
	}
	var failed error
	for range held {
		failed = errors.Join(failed, <-errs)
	}
	if failed != nil {
		return nil, failed
	}
	if err := o.extend(ctx, held); err != nil {
		return nil, err
	}
	lease, err := o.locker.Acquire(ctx, "warm")
	if err != nil {
		return nil, err
	}
	if err := lease.Release(ctx); err != nil {
		return nil, err
	}
	_, err = o.locker.Inspect(ctx, "warm")
	return held, err
}

func (o *operations) acquire(ctx context.Context, into *[]*holdfast.Lease, i int, options ...holdfast.AcquireOption) error {
	lease, err := o.locker.Acquire(ctx, fmt.Sprint("counted:", i), options...)
	*into = append(*into, lease)
	return err
}

func (o *operations) contended(ctx context.Context, name string, options ...holdfast.AcquireOption) error {
	_, err := o.locker.TryAcquire(ctx, name, options...)
	if !errors.Is(err, holdfast.ErrHeld) {
		return fmt.Errorf("the name is held, but the answer is: %w", err)
	}
	return nil
}

func (o *operations) extend(ctx context.Context, leases []driver.ExtendRequest) error {
	for _, result := range o.store.Extend(ctx, leases) {
		if result.Err != nil || result.Answer != driver.Mine {
			return fmt.Errorf("a lease was not extended: %v, %w", result.Answer, result.Err)
		}
	}
	return nil
}
