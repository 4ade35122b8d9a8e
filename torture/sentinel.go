package main

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/holdfastlock/holdfast/internal/redistest"
	"github.com/holdfastlock/holdfast/torture/history"
	"github.com/holdfastlock/holdfast/torture/nemesis"
)

// sentinels are three servers and the three sentinels that choose their primary.
type sentinels struct {
	options options
	dir     string
	record  func(history.Event)
	*redistest.Sentinels
	ways
	primary *redistest.Process // that was chosen last
}

const (
	// downAfter is longer than the servers of a busy machine are silent by
	// themselves.
	downAfter = time.Second
	// dataPassword is that of the servers, for everybody.
	dataPassword = "torture"
	// watcher is the ACL user as whom replicas and sentinels know the servers:
	// without it they are cut off, and clients are not.
	watcher = "watcher"
)

// start implements backend.
func (s *sentinels) start() error {
	binary, err := redistest.FindBinary()
	if err != nil {
		return err
	}
	server := onDisk()
	server.Password = dataPassword
	s.Sentinels, err = redistest.LaunchSentinels(binary, s.dir, redistest.SentinelOptions{Server: server, DownAfter: downAfter})
	if err != nil {
		return err
	}
	if err := s.watch(); err != nil {
		return err
	}
	s.primary = s.Primary()
	s.ways, err = openWays(s.options.workers, slices.Concat(s.Servers, s.Sentinels.Sentinels))
	return err
}

// watch has the replicas and sentinels be the watcher.
func (s *sentinels) watch() error {
	for _, sentinel := range s.Sentinels.Sentinels {
		if err := sentinel.Do("SENTINEL", "SET", redistest.MasterSet, "auth-user", watcher).Error(); err != nil {
			return err
		}
	}
	for _, server := range s.Servers {
		for _, command := range []string{
			"ACL SETUSER " + watcher + " on >" + dataPassword + " ~* &* +@all",
			"CONFIG SET masteruser " + watcher, "CONFIG REWRITE",
			"CLIENT KILL TYPE normal", "CLIENT KILL TYPE pubsub", "CLIENT KILL TYPE master",
		} {
			if err := server.Do(strings.Fields(command)...).Error(); err != nil {
				return err
			}
		}
	}
	return s.WaitSettled()
}

// store implements backend.
func (s *sentinels) store(n int) (string, map[string]string) {
	url := "redis+sentinel://:" + dataPassword + "@" + strings.Join(s.Addrs(), ",") + "/" + redistest.MasterSet
	return s.options.url(url), s.networks(n)
}

// aboutLocks implements backend.
func (s *sentinels) aboutLocks(int) string { return prefix }

// locks implements backend.
func (s *sentinels) locks() (map[string]string, error) {
	primary, err := s.chosen()
	if err != nil {
		return nil, err
	}
	return locksOf(primary)
}

// places implements backend.
func (s *sentinels) places(killed map[string]bool) (map[string]string, error) {
	return placesOf(killed, s.primary)
}

// versions implements backend.
func (s *sentinels) versions() map[string]string { return versionsOf(s.primary) }

func (s *sentinels) close() {
	s.ways.close()
	if s.Sentinels != nil {
		s.Kill()
	}
}

// chosen returns the primary, unless it is another than it should be: that would
// be a failover that no fault stands for.
func (s *sentinels) chosen() (*redistest.Process, error) {
	switch s.Primary() {
	case s.primary:
		return s.primary, nil
	case nil:
		return nil, errors.New("no primary is named by most of the sentinels, though all should run")
	default:
		return nil, errors.New("the sentinels have replaced a primary that was well, as on a machine that is too busy")
	}
}

// actions implements backend.
func (s *sentinels) actions() map[string]serverAction {
	return map[string]serverAction{
		nemesis.BriefStop.Name:     s.stopBriefly,
		nemesis.ReplicaKill.Name:   s.killReplica,
		nemesis.SentinelsKill.Name: s.killSentinels,
		nemesis.ScriptFlush.Name:   s.command("SCRIPT", "FLUSH"),
		nemesis.KillNormal.Name:    s.command("CLIENT", "KILL", "TYPE", "normal"),
		nemesis.KillPubSub.Name:    s.command("CLIENT", "KILL", "TYPE", "pubsub"),
		nemesis.FailoverByKill.Name: s.failover(
			func(old *redistest.Process) error { old.Kill(); return nil },
			func(old *redistest.Process) error { return old.Restart(true) },
		),
		nemesis.FailoverByStop.Name: s.failover(
			func(old *redistest.Process) error { old.Pause(); return nil },
			func(old *redistest.Process) error { old.Resume(); return nil },
		),
		nemesis.FailoverByCut.Name: s.failover(cutOff, func(old *redistest.Process) error {
			return old.Do("ACL", "SETUSER", watcher, "on").Error()
		}),
		nemesis.FailoverByHand.Name: s.failover(func(*redistest.Process) error {
			return s.Sentinels.Sentinels[0].Do("SENTINEL", "FAILOVER", redistest.MasterSet).Error()
		}, func(*redistest.Process) error { return nil }),
	}
}

// cutOff parts a primary from its replicas and the sentinels.
func cutOff(primary *redistest.Process) error {
	return errors.Join(
		primary.Do("ACL", "SETUSER", watcher, "off").Error(),
		primary.Do("CLIENT", "KILL", "USER", watcher).Error(),
	)
}

// failover begins what makes the sentinels replace the primary, and ends it when
// they have. It is healed when the old primary follows the new one: then no other
// server is used. What the sentinels still have to learn of an earlier fault they
// learn first, or they would undo the failover, or begin another.
func (s *sentinels) failover(begin, end func(old *redistest.Process) error) serverAction {
	return func(f nemesis.Fault) (func() error, error) {
		if err := s.WaitSettled(); err != nil {
			return nil, err
		}
		old, err := s.chosen()
		if err != nil {
			return nil, err
		}
		replicas, began := s.replicas(), history.Now()
		return func() error {
			since, err := untilPromoted(began, replicas...)
			if err != nil {
				return err
			}
			s.record(promotion(f, since))
			if s.primary, err = s.WaitFailover(old); err != nil {
				return err
			}
			if err := errors.Join(end(old), s.WaitFollowed()); err != nil {
				return err
			}
			_, err = s.chosen()
			return err
		}, begin(old)
	}
}

func (s *sentinels) replicas() []*redistest.Process {
	return slices.DeleteFunc(slices.Clone(s.Servers), func(server *redistest.Process) bool { return server == s.primary })
}

func (s *sentinels) stopBriefly(nemesis.Fault) (func() error, error) {
	primary, err := s.chosen()
	if err != nil {
		return nil, err
	}
	primary.Pause()
	return func() error {
		primary.Resume()
		return nil
	}, nil
}

func (s *sentinels) killReplica(f nemesis.Fault) (func() error, error) {
	replicas := s.replicas()
	_, which := pick(len(replicas), f)
	replicas[which].Kill()
	return func() error { return replicas[which].Restart(true) }, nil
}

// killSentinels kills some of the sentinels, or all.
func (s *sentinels) killSentinels(f nemesis.Fault) (func() error, error) {
	more, first := pick(len(s.Sentinels.Sentinels), f)
	killed := slices.Concat(s.Sentinels.Sentinels[first:], s.Sentinels.Sentinels[:first])[:1+more]
	for _, sentinel := range killed {
		sentinel.Kill()
	}
	return func() error {
		for _, sentinel := range killed {
			if err := sentinel.Restart(true); err != nil {
				return err
			}
		}
		return s.WaitSettled()
	}, nil
}

func (s *sentinels) command(args ...string) serverAction {
	return func(nemesis.Fault) (func() error, error) {
		primary, err := s.chosen()
		if err != nil {
			return nil, err
		}
		return nil, primary.Do(args...).Error()
	}
}
