package main

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
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
	Modules []string // the libraries under measurement, with their versions
	Load    string   // load averages of 1, 5 and 15 minutes when it began
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
		Modules: moduleVersions(),
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

// moduleVersions returns those of the clients and of the peers.
func moduleVersions() []string {
	measured := []string{
		"github.com/redis/rueidis", "github.com/redis/go-redis/v9", "github.com/bsm/redislock", "github.com/go-redsync/redsync/v4",
	}
	var versions []string
	info, _ := debug.ReadBuildInfo() // nil without modules
	for _, module := range info.Deps {
		if slices.Contains(measured, module.Path) {
			versions = append(versions, strings.TrimPrefix(module.Path, "github.com/")+" "+module.Version)
		}
	}
	return versions
}
