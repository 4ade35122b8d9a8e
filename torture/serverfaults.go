package main

import (
	"time"

	"github.com/holdfastlock/holdfast/torture/nemesis"
)

// actions implements backend.
func (s *servers) actions() map[string]serverAction {
	return map[string]serverAction{
		nemesis.ServerStop.Name:    s.stopPrimary,
		nemesis.ServerKill.Name:    s.killPrimary,
		nemesis.Restart.Name:       s.restart(true),
		nemesis.RestartEmpty.Name:  s.restart(false),
		nemesis.ScriptFlush.Name:   s.command("SCRIPT", "FLUSH"),
		nemesis.FlushAll.Name:      s.command("FLUSHALL"),
		nemesis.KillNormal.Name:    s.command("CLIENT", "KILL", "TYPE", "normal"),
		nemesis.KillPubSub.Name:    s.command("CLIENT", "KILL", "TYPE", "pubsub"),
		nemesis.TinyBuffers.Name:   s.configure(setting{"client-output-buffer-limit", "pubsub 1 0 0", "pubsub 33554432 8388608 60"}),
		nemesis.FullMemory.Name:    s.configure(setting{"maxmemory", "1", "0"}),
		nemesis.Eviction.Name:      s.configure(setting{"maxmemory-policy", "allkeys-random", "noeviction"}, setting{"maxmemory", "1", "0"}),
		nemesis.ClockBack.Name:     s.stepBack,
		nemesis.ClockForward.Name:  s.stepForward,
		nemesis.FailoverBlind.Name: s.failover,
	}
}

func (s *servers) stopPrimary(nemesis.Fault) (func() error, error) {
	server := s.primary
	server.Pause()
	return func() error {
		server.Resume()
		return nil
	}, nil
}

// killPrimary crashes the server, whose data is on disk.
func (s *servers) killPrimary(nemesis.Fault) (func() error, error) {
	server := s.primary
	server.Kill()
	return func() error { return server.Restart(true) }, nil
}

func (s *servers) restart(keepData bool) serverAction {
	return func(nemesis.Fault) (func() error, error) {
		server := s.primary
		server.End()
		return func() error { return server.Restart(keepData) }, nil
	}
}

func (s *servers) command(args ...string) serverAction {
	return func(nemesis.Fault) (func() error, error) {
		return nil, s.primary.Do(args...).Error()
	}
}

// setting is one of the server, how it is broken and how it is right.
type setting struct{ name, broken, right string }

func (s *servers) configure(settings ...setting) serverAction {
	return func(nemesis.Fault) (func() error, error) {
		for _, set := range settings {
			if err := s.primary.Do("CONFIG", "SET", set.name, set.broken).Error(); err != nil {
				return nil, err
			}
		}
		return func() error {
			for _, set := range settings {
				if err := s.primary.Do("CONFIG", "SET", set.name, set.right).Error(); err != nil {
					return err
				}
			}
			return nil
		}, nil
	}
}

func (s *servers) stepBack(f nemesis.Fault) (func() error, error) {
	return stepBack(s.stepClock, f)
}

func (s *servers) stepForward(f nemesis.Fault) (func() error, error) {
	return nil, s.stepClock(scale(f, s.options.ttl/4, 4*s.options.ttl))
}

// stepBack sets a clock back by as much as the fault lasts: once it is over, the
// clock shows a time again that it has not shown before.
func stepBack(step func(by time.Duration) error, f nemesis.Fault) (func() error, error) {
	return func() error { return nil }, step(-f.For)
}

// failover cuts the replica off, lets the primary go on alone, and promotes the
// replica, which has not heard of the latest locks.
func (s *servers) failover(nemesis.Fault) (func() error, error) {
	if err := s.inSync(); err != nil {
		return nil, err
	}
	s.link.Drop()
	return s.promote, nil
}
