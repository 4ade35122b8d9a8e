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

// postgresActions are what each kind of fault does to a Postgres server.
func (r *run) postgresActions() map[string]func(nemesis.Fault) (func() error, error) {
	return map[string]func(nemesis.Fault) (func() error, error){
		nemesis.ServerStop.Name:    r.stopPostgres,
		nemesis.ServerKill.Name:    r.killPostgres,
		nemesis.Restart.Name:       r.restartPostgres,
		nemesis.BackendStop.Name:   r.stopBackend,
		nemesis.KillBackends.Name:  r.endConnections("true"),
		nemesis.KillListeners.Name: r.endConnections("query LIKE 'LISTEN%'"),
		nemesis.PoolerRestart.Name: r.restartPooler,
		nemesis.ClockBack.Name:     r.stepBack,
		nemesis.ClockForward.Name:  r.stepForward,
		nemesis.FailoverSync.Name:  r.promoteStandby(true),
		nemesis.FailoverAsync.Name: r.promoteStandby(false),
	}
}

func (r *run) stopPostgres(nemesis.Fault) (func() error, error) {
	server := r.postgres.primary
	server.Pause()
	return func() error {
		server.Resume()
		return nil
	}, nil
}

// killPostgres crashes the server, whose data is on disk.
func (r *run) killPostgres(nemesis.Fault) (func() error, error) {
	r.postgres.primary.Kill()
	return r.startAgain, nil
}

func (r *run) restartPostgres(nemesis.Fault) (func() error, error) {
	r.postgres.primary.End()
	return r.startAgain, nil
}

func (r *run) startAgain() error {
	if err := r.postgres.primary.Restart(); err != nil {
		return err
	}
	return r.postgres.inSync()
}

// ofClients are the connections of the workers.
const ofClients = " FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() "

// stopBackend stops the process of one connection.
func (r *run) stopBackend(nemesis.Fault) (func() error, error) {
	text, err := r.postgres.primary.Value(pgtest.User,
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

func (r *run) endConnections(which string) func(nemesis.Fault) (func() error, error) {
	return func(nemesis.Fault) (func() error, error) {
		_, err := r.postgres.primary.Value(pgtest.User, "SELECT count(pg_terminate_backend(pid))::text"+ofClients+"AND "+which)
		return nil, err
	}
}

func (r *run) restartPooler(nemesis.Fault) (func() error, error) {
	r.postgres.pooler.Kill()
	return r.postgres.pooler.Restart, nil
}

// promoteStandby cuts the standby off, lets the primary go on, and promotes the
// standby. If the primary waits for it, no commit is answered meanwhile.
func (r *run) promoteStandby(synchronous bool) func(nemesis.Fault) (func() error, error) {
	return func(nemesis.Fault) (func() error, error) {
		if !synchronous {
			if err := waitFor(r.postgres.primary, ""); err != nil {
				return nil, err
			}
		}
		r.postgres.link.Drop()
		return r.postgres.promote, nil
	}
}
