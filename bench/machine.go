package main

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"time"
)

// machine is where and with what the figures were measured.
type machine struct {
	Date    string
	CPU     string
	Cores   int
	System  string
	Go      string
	Redis   string
	Rueidis string
	Load    string // load averages of 1, 5 and 15 minutes when it began
}

func (s *server) machine() machine {
	info, _ := s.info(context.Background(), "server") // without it the version is empty
	return machine{
		Date:    time.Now().UTC().Format(time.DateOnly),
		CPU:     line("/proc/cpuinfo", "model name"),
		Cores:   runtime.NumCPU(),
		System:  strings.Trim(line("/etc/os-release", "PRETTY_NAME"), `"`),
		Go:      strings.TrimPrefix(runtime.Version(), "go"),
		Redis:   info["redis_version"],
		Rueidis: moduleVersion("github.com/redis/rueidis"),
		Load:    load(),
	}
}

// line returns what follows the key and '=' or ':' in the first line of the
// file that begins with it, or "unknown".
func line(file, key string) string {
	text, _ := os.ReadFile(file)
	for line := range strings.Lines(string(text)) {
		if rest, found := strings.CutPrefix(line, key); found {
			return strings.TrimSpace(strings.TrimLeft(rest, "\t :="))
		}
	}
	return "unknown"
}

func load() string {
	text, _ := os.ReadFile("/proc/loadavg")
	if fields := strings.Fields(string(text)); len(fields) > 3 {
		return strings.Join(fields[:3], " ")
	}
	return "unknown"
}

func moduleVersion(path string) string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, module := range info.Deps {
			if module.Path == path {
				return strings.TrimPrefix(module.Version, "v")
			}
		}
	}
	return "unknown"
}
