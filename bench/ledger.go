package main

import (
	"os"
	"sync/atomic"
	"syscall"
	"unsafe"
)

// ledger is what the holders of one key write down, in memory that all processes
// share. It does not rely on the lock: it finds out whether the lock works.
type ledger struct {
	holders  atomic.Int32
	last     atomic.Int32 // who held last, see contender.number
	released atomic.Int64 // when its release was called; ns of the wall clock, which all processes share
}

// createLedger makes an empty ledger in a new file.
func createLedger(name string) error {
	return os.WriteFile(name, make([]byte, os.Getpagesize()), 0o600)
}

// openLedger maps the file into memory; unmap ends that.
func openLedger(name string) (l *ledger, unmap func(), err error) {
	file, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return nil, nil, err
	}
	defer file.Close()
	memory, err := syscall.Mmap(int(file.Fd()), 0, os.Getpagesize(), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return nil, nil, err
	}
	return (*ledger)(unsafe.Pointer(&memory[0])), func() { syscall.Munmap(memory) }, nil
}
