package main

import (
	"context"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfastlock/holdfast"
	"github.com/holdfastlock/holdfast/redisstore"
)

// lockTTL is the TTL of the locks that are acquired and released at once.
const lockTTL = 30 * time.Second

// holdfastLocks is a Locker on a Redis store, used as it comes.
type holdfastLocks struct {
	store   *redisstore.Store
	locker  *holdfast.Locker
	options []holdfast.AcquireOption
}

func openHoldfast(addr string, _ plan) (locks, error) {
	return newHoldfast(addr, holdfast.Config{TTL: lockTTL})
}

func openHoldfastBare(addr string, _ plan) (locks, error) {
	return newHoldfast(addr, holdfast.Config{TTL: lockTTL}, holdfast.WithoutFence())
}

func newHoldfast(addr string, config holdfast.Config, options ...holdfast.AcquireOption) (*holdfastLocks, error) {
	store, err := redisstore.New(redisstore.Options{Client: rueidis.ClientOption{InitAddress: []string{addr}}})
	if err != nil {
		return nil, err
	}
	locker, err := holdfast.New(store, config)
	if err != nil {
		store.Close()
		return nil, err
	}
	return &holdfastLocks{store: store, locker: locker, options: options}, nil
}

func (h *holdfastLocks) Acquire(ctx context.Context, key string) (func(context.Context) error, error) {
	lease, err := h.locker.Acquire(ctx, key, h.options...)
	if err != nil {
		return nil, err
	}
	return lease.Release, nil
}

func (h *holdfastLocks) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_ = h.locker.Close(ctx) // what it could not release ends with the server
	h.store.Close()
}
