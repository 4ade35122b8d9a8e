package main

import (
	"context"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfastlock/holdfast"
	"github.com/holdfastlock/holdfast/driver"
	"github.com/holdfastlock/holdfast/redisstore"
)

// holdfastLocks is a Locker on a store.
type holdfastLocks struct {
	store      driver.Store
	locker     *holdfast.Locker
	closeStore func()
	options    []holdfast.AcquireOption
}

func openHoldfast(_ context.Context, addr string, ttl time.Duration) (locks, error) {
	return newHoldfast(addr, holdfast.Config{TTL: ttl})
}

func openUnfenced(_ context.Context, addr string, ttl time.Duration) (locks, error) {
	return newHoldfast(addr, holdfast.Config{TTL: ttl}, holdfast.WithoutFence())
}

func openNoPassing(_ context.Context, addr string, ttl time.Duration) (locks, error) {
	return newHoldfast(addr, holdfast.Config{TTL: ttl, NoLocalPassing: true})
}

func newStore(addr string) (*redisstore.Store, error) {
	return redisstore.New(redisstore.Options{Client: rueidis.ClientOption{InitAddress: []string{addr}}})
}

func newHoldfast(addr string, config holdfast.Config, options ...holdfast.AcquireOption) (*holdfastLocks, error) {
	store, err := newStore(addr)
	if err != nil {
		return nil, err
	}
	return lockOn(store, store.Close, config, options...)
}

// lockOn closes the store if it fails.
func lockOn(store driver.Store, closeStore func(), config holdfast.Config, options ...holdfast.AcquireOption) (*holdfastLocks, error) {
	locker, err := holdfast.New(store, config)
	if err != nil {
		closeStore()
		return nil, err
	}
	return &holdfastLocks{store: store, locker: locker, closeStore: closeStore, options: options}, nil
}

func (h *holdfastLocks) Acquire(ctx context.Context, key string) (func(context.Context) error, error) {
	lease, err := h.locker.Acquire(ctx, key, h.options...)
	if err != nil {
		return nil, err
	}
	return lease.Release, nil
}

func (h *holdfastLocks) Close() {
	closeLocker(h.locker)
	h.closeStore()
}

func closeLocker(locker *holdfast.Locker) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_ = locker.Close(ctx) // what it could not release ends with the server
}

// manyLockers has a Locker for each call that is under way, so that in one
// process as many wait at the server as else in as many processes.
type manyLockers struct {
	store  *redisstore.Store
	config holdfast.Config

	mu   sync.Mutex
	idle []*holdfast.Locker
}

func openLockers(_ context.Context, addr string, ttl time.Duration) (locks, error) {
	store, err := newStore(addr)
	if err != nil {
		return nil, err
	}
	return &manyLockers{store: store, config: holdfast.Config{TTL: ttl}}, nil
}

func (m *manyLockers) Acquire(ctx context.Context, key string) (func(context.Context) error, error) {
	locker, err := m.take()
	if err != nil {
		return nil, err
	}
	lease, err := locker.Acquire(ctx, key)
	if err != nil {
		m.giveBack(locker)
		return nil, err
	}
	return func(ctx context.Context) error {
		defer m.giveBack(locker)
		return lease.Release(ctx)
	}, nil
}

func (m *manyLockers) take() (*holdfast.Locker, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if last := len(m.idle) - 1; last >= 0 {
		locker := m.idle[last]
		m.idle = m.idle[:last]
		return locker, nil
	}
	return holdfast.New(m.store, m.config)
}

func (m *manyLockers) giveBack(locker *holdfast.Locker) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.idle = append(m.idle, locker)
}

// Close is called when no call is under way.
func (m *manyLockers) Close() {
	var closing sync.WaitGroup
	for _, locker := range m.idle {
		closing.Go(func() { closeLocker(locker) })
	}
	closing.Wait()
	m.store.Close()
}
