package main

import (
	"runtime"
	"syscall"
	"time"
)

// usage is what this process has used so far.
type usage struct {
	at     time.Time
	wall   time.Duration // only in a difference
	cpu    time.Duration // in user and kernel mode
	allocs uint64
	bytes  uint64
}

func readUsage() usage {
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	var r syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &r) // fails only for a wrong argument
	return usage{
		at:     time.Now(),
		cpu:    time.Duration(r.Utime.Nano() + r.Stime.Nano()),
		allocs: memory.Mallocs, bytes: memory.TotalAlloc,
	}
}

func (u usage) since(before usage) usage {
	return usage{
		wall: u.at.Sub(before.at), cpu: u.cpu - before.cpu,
		allocs: u.allocs - before.allocs, bytes: u.bytes - before.bytes,
	}
}

// liveMemory returns the bytes of the heap and the stacks that are in use after
// all garbage is gone. The second collection empties what the first moves out of
// pools.
func liveMemory() uint64 {
	runtime.GC()
	runtime.GC()
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	return memory.HeapAlloc + memory.StackInuse
}
