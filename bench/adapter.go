package main

import "context"

// locks is a library under measurement, connected to a server.
type locks interface {
	// Acquire takes the lock of the key, which is free, for lockTTL. Release
	// frees it.
	Acquire(ctx context.Context, key string) (release func(context.Context) error, err error)
	Close()
}

// adapter is one way to lock that is measured.
type adapter struct {
	name string
	// beside names the adapter that does the same commands with the bare client;
	// empty for that one itself.
	beside string
	open   func(addr string, p plan) (locks, error)
}

// adapters are measured in this order; a bare client stands before what is
// compared with it.
var adapters = []adapter{
	{name: "raw-fenced", open: openRawFenced},
	{name: "holdfast", beside: "raw-fenced", open: openHoldfast},
	{name: "raw-bare", open: openRawBare},
	{name: "holdfast-bare", beside: "raw-bare", open: openHoldfastBare},
}

func adapterNames() []string {
	var names []string
	for _, a := range adapters {
		names = append(names, a.name)
	}
	return names
}
