package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/holdfastlock/holdfast/internal/redistest"
	"github.com/holdfastlock/holdfast/torture/clockshim"
)

// servers are a primary and a replica that has its data a moment later. Each
// worker reaches the primary through a proxy of its own.
type servers struct {
	options          options
	dir              string
	primary, replica *redistest.Process
	// link is how the replica reaches the primary.
	link   *redistest.Proxy
	ways   []*redistest.Proxy // of worker 1, 2, …
	clock  clockshim.File     // of both servers
	offset time.Duration      // of that clock
}

// start implements backend. The servers have a clock that can be stepped.
func (s *servers) start() (err error) {
	binary, err := redistest.FindBinary()
	if err != nil {
		return err
	}
	library, err := clockshim.Build(s.dir)
	if err != nil {
		return err
	}
	if s.clock, err = clockshim.Create(filepath.Join(s.dir, "server.clock")); err != nil {
		return err
	}
	options := redistest.Options{
		AppendOnly: true,
		Env:        s.clock.Env(library),
		Args:       []string{"--repl-diskless-sync-delay", "0", "--repl-timeout", "60"},
	}
	if s.primary, err = launch(binary, filepath.Join(s.dir, "server1"), options); err != nil {
		return err
	}
	if s.replica, err = launch(binary, filepath.Join(s.dir, "server2"), options); err != nil {
		return err
	}
	if s.link, err = redistest.OpenProxy(s.primary.Addr()); err != nil {
		return err
	}
	for range s.options.workers {
		proxy, err := redistest.OpenProxy(s.primary.Addr())
		if err != nil {
			return err
		}
		s.ways = append(s.ways, proxy)
	}
	if err := s.follow(s.replica); err != nil {
		return err
	}
	return s.inSync()
}

func launch(binary, dir string, options redistest.Options) (*redistest.Process, error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	return redistest.Launch(binary, dir, options)
}

// follow makes a server the replica of whatever the link leads to.
func (s *servers) follow(replica *redistest.Process) error {
	host, port, err := net.SplitHostPort(s.link.Addr())
	if err != nil {
		return err
	}
	return replica.Do("REPLICAOF", host, port).Error()
}

// store implements backend.
func (s *servers) store(n int) (string, map[string]string) {
	return s.options.url("redis://" + s.ways[n-1].Addr()), nil
}

// proxies implements backend.
func (s *servers) proxies(n int) []*redistest.Proxy { return s.ways[n-1 : n] }

// aboutLocks implements backend.
func (s *servers) aboutLocks(int) string { return prefix }

// locks implements backend.
func (s *servers) locks() (map[string]string, error) { return locksOf(s.primary) }

// places implements backend.
func (s *servers) places(killed map[string]bool) (map[string]string, error) {
	return placesOf(killed, s.primary)
}

// versions implements backend.
func (s *servers) versions() map[string]string { return versionsOf(s.primary) }

// inSync waits until the replica has the primary's data.
func (s *servers) inSync() error {
	for deadline := time.Now().Add(syncWithin); ; time.Sleep(syncPoll) {
		info, err := s.replica.Do("INFO", "replication").ToString()
		if err == nil && strings.Contains(info, "master_link_status:up") {
			return nil
		}
		if time.Now().After(deadline) {
			return errors.Join(fmt.Errorf("the replica does not follow:\n%s", info), err)
		}
	}
}

// How long a replica may take, on a busy machine, and how often to ask. Sentinels
// that could not agree who makes a failover try again after 20 s.
const (
	syncWithin = 60 * time.Second
	syncPoll   = 5 * time.Millisecond
)

// promote makes the replica the primary, and the other way round. Nobody reaches
// the old primary when it returns.
func (s *servers) promote() error {
	s.primary, s.replica = s.replica, s.primary
	for _, proxy := range s.ways {
		proxy.Retarget(s.primary.Addr())
	}
	if err := s.primary.Do("REPLICAOF", "NO", "ONE").Error(); err != nil {
		return err
	}
	s.link.Retarget(s.primary.Addr())
	s.link.Heal()
	return s.follow(s.replica)
}

// stepClock moves the clock of both servers.
func (s *servers) stepClock(by time.Duration) error {
	s.offset += by
	return s.clock.Set(s.offset)
}

func (s *servers) close() {
	for _, proxy := range s.ways {
		proxy.Close()
	}
	if s.link != nil {
		s.link.Close()
	}
	for _, server := range []*redistest.Process{s.primary, s.replica} {
		if server != nil {
			server.Kill()
		}
	}
}
