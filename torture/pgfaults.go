package main

import (
	"errors"
	"fmt"
	"strconv"
	"syscall"

	"github.com/jackc/pgx/v5"

	"github.com/holdfastlock/holdfast/internal/pgtest"
	"github.com/holdfastlock/holdfast/torture/nemesis"
)

// actions implements backend.
func (p *postgres) actions() map[string]serverAction {
	return map[string]serverAction{
		nemesis.ServerStop.Name:    p.stopPrimary,
		nemesis.ServerKill.Name:    p.killPrimary,
		nemesis.Restart.Name:       p.restartPrimary,
		nemesis.BackendStop.Name:   p.stopBackend,
		nemesis.KillBackends.Name:  p.endConnections("true"),
		nemesis.KillListeners.Name: p.endConnections("query LIKE 'LISTEN%'"),
		nemesis.PoolerRestart.Name: p.restartPooler,
		nemesis.ClockBack.Name:     p.stepBack,
		nemesis.ClockForward.Name:  p.stepForward,
		nemesis.FailoverSync.Name:  p.promoteStandby(true),
		nemesis.FailoverAsync.Name: p.promoteStandby(false),
	}
}

func (p *postgres) stopPrimary(nemesis.Fault) (func() error, error) {
	server := p.primary
	server.Pause()
	return func() error {
		server.Resume()
		return nil
	}, nil
}

// killPrimary crashes the server, whose data is on disk.
func (p *postgres) killPrimary(nemesis.Fault) (func() error, error) {
	p.primary.Kill()
	return p.startAgain, nil
}

func (p *postgres) restartPrimary(nemesis.Fault) (func() error, error) {
	p.primary.End()
	return p.startAgain, nil
}

func (p *postgres) startAgain() error {
	if err := p.primary.Restart(); err != nil {
		return err
	}
	return p.inSync()
}

// ofClients are the connections of the workers.
const ofClients = " FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() "

// stopBackend stops the process of one connection.
func (p *postgres) stopBackend(nemesis.Fault) (func() error, error) {
	text, err := p.primary.Value(pgtest.User,
		"SELECT pid::text"+ofClients+"ORDER BY state LIKE 'idle in transaction%' DESC, random() LIMIT 1")
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil // nobody is connected
	}
	if err != nil {
		return nil, err
	}
	pid, err := strconv.Atoi(text)
	if err != nil {
		return nil, fmt.Errorf("the process of a connection: %w", err)
	}
	signal := func(signal syscall.Signal) error {
		if err := syscall.Kill(pid, signal); !errors.Is(err, syscall.ESRCH) { // it may have ended before
			return err
		}
		return nil
	}
	return func() error { return signal(syscall.SIGCONT) }, signal(syscall.SIGSTOP)
}

func (p *postgres) endConnections(which string) serverAction {
	return func(nemesis.Fault) (func() error, error) {
		_, err := p.primary.Value(pgtest.User, "SELECT count(pg_terminate_backend(pid))::text"+ofClients+"AND "+which)
		return nil, err
	}
}

func (p *postgres) restartPooler(nemesis.Fault) (func() error, error) {
	p.pooler.Kill()
	return p.pooler.Restart, nil
}

// promoteStandby cuts the standby off, lets the primary go on, and promotes the
// standby. If the primary waits for it, no commit is answered meanwhile.
func (p *postgres) promoteStandby(synchronous bool) serverAction {
	return func(nemesis.Fault) (func() error, error) {
		if !synchronous {
			if err := waitFor(p.primary, ""); err != nil {
				return nil, err
			}
		}
		p.link.Drop()
		return p.promote, nil
	}
}

func (p *postgres) stepBack(f nemesis.Fault) (func() error, error) {
	return stepBack(p.stepClock, f)
}

func (p *postgres) stepForward(f nemesis.Fault) (func() error, error) {
	return nil, p.stepClock(scale(f, p.options.ttl/4, 4*p.options.ttl))
}
