package main

import (
	"os"
	"runtime/pprof"
)

// startProfiles begins the profiles that were asked for; the function it
// returns writes them.
func startProfiles(p plan) (stop func() error, err error) {
	var cpu *os.File
	if p.cpuProfile != "" {
		if cpu, err = os.Create(p.cpuProfile); err != nil {
			return nil, err
		}
		if err := pprof.StartCPUProfile(cpu); err != nil {
			return nil, err
		}
	}
	return func() error {
		if cpu != nil {
			pprof.StopCPUProfile()
			if err := cpu.Close(); err != nil {
				return err
			}
		}
		return writeMemProfile(p.memProfile)
	}, nil
}

func writeMemProfile(name string) error {
	if name == "" {
		return nil
	}
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	defer file.Close()
	return pprof.Lookup("allocs").WriteTo(file, 0)
}
