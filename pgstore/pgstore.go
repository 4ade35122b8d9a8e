// Package pgstore keeps locks in a Postgres database, version 13 or later.
//
// What holds: every step is one statement, hence one transaction; leases and
// fences survive what committed data survives. Expiry is compared by the
// server's clock alone (clock_timestamp), never with that of a client. A fence is
// at least the server's clock in µs and more than the one before it in the row,
// which a release keeps. So fences grow also if the server's clock is set back,
// and also if the data is lost, but not after both.
//
// What does not: where the server may lose commits, a lock may be granted twice
// and a fence repeat. That is so with fsync or synchronous_commit off and a power
// cut, and with asynchronous replication and a failover. With synchronous
// replication (synchronous_standby_names set, synchronous_commit on) it is not.
//
// For data in the same database there is something stronger than a lease: Guard,
// which keeps others from the lock until the caller's transaction has ended, with
// no assumption about time. Claim and TxLock need no lease at all.
//
// The tables come from Schema, by ApplySchema or the command "holdfast schema
// apply", and are found by the search_path. No step needs anything of a session: no
// setting, no advisory lock, and through a pooler no prepared statement. So it
// works through PgBouncer in transaction mode. Only LISTEN needs a session, of its
// own: see Store.Subscribe.
package pgstore

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfastlock/holdfast/driver"
)

// Config says how a Store is set up. The zero value is fine.
type Config struct {
	// ListenURL is the postgres:// URL to LISTEN at, where the store's own goes
	// through a pooler: that of the server itself.
	ListenURL string
}

// Store keeps locks in one database. It implements driver.Store,
// driver.Notifier, driver.Lister and driver.SlotKeeper, and is safe for
// concurrent use.
type Store struct {
	pool     *pgxpool.Pool
	ours     bool // the pool, which Close then closes
	listener *listener
}

var (
	_ driver.Store      = (*Store)(nil)
	_ driver.Notifier   = (*Store)(nil)
	_ driver.Lister     = (*Store)(nil)
	_ driver.SlotKeeper = (*Store)(nil)
)

// New returns a store that uses the connections of a pool. The caller keeps the
// pool, and closes the store before it. It does no I/O.
//
// Statements are sent as the pool's connections are set up. The default of pgx
// prepares each of them once per connection, which is quickest, and does not
// work through PgBouncer in transaction mode: set DefaultQueryExecMode to
// pgx.QueryExecModeExec there. A ConnectTimeout of seconds keeps a server that
// does not answer from using up the pool.
func New(pool *pgxpool.Pool, config Config) (*Store, error) {
	listen := func(ctx context.Context) (*pgx.ConnConfig, error) {
		config := pool.Config()
		if config.BeforeConnect == nil {
			return config.ConnConfig, nil
		}
		return config.ConnConfig, config.BeforeConnect(ctx, config.ConnConfig)
	}
	if config.ListenURL != "" {
		direct, err := pgx.ParseConfig(config.ListenURL)
		if err != nil {
			return nil, badURL("ListenURL")
		}
		listen = func(context.Context) (*pgx.ConnConfig, error) { return direct, nil }
	}
	return &Store{pool: pool, listener: newListener(listen)}, nil
}

// connectLimit is how long a server may take to answer a new connection. The
// default of pgx, two minutes, would let a network that swallows everything use
// up the pool for as long.
const connectLimit = 5 * time.Second

// poolSize is how many connections a store may have at once, unless the URL says
// so: each of those on which a server has not answered is in use for seconds
// more.
const poolSize = 10

// closeLimit is how long Close waits for connections on which the server does
// not answer.
const closeLimit = time.Second

// Open returns a store on the database that a postgres:// URL, or a list of
// key=value as libpq has it, names. It does no I/O. An error matches
// driver.ErrMisconfigured, and has no part of the text. A connection may take 5 s
// to be made, or less if the text says so.
//
// Statements are prepared once on connections that lead to the server itself,
// which saves the server most of its work. Through a pooler they are sent anew
// each time, without a name (pgx's mode exec): in transaction mode the next one
// may meet a connection that does not know the name. A parameter
// default_query_exec_mode in the text decides otherwise.
func Open(url string, config Config) (*Store, error) {
	settings, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, badURL("the URL")
	}
	conn := settings.ConnConfig
	if conn.ConnectTimeout <= 0 || conn.ConnectTimeout > connectLimit { // 0 is no limit
		conn.ConnectTimeout = connectLimit
	}
	if !strings.Contains(url, "pool_max_conns") {
		settings.MaxConns = poolSize
	}
	if !strings.Contains(url, "default_query_exec_mode") {
		conn.DefaultQueryExecMode = pgx.QueryExecModeExec
		settings.AfterConnect = noteDirect
	}
	if conn.RuntimeParams["application_name"] == "" {
		conn.RuntimeParams["application_name"] = "holdfast"
	}
	pool, err := pgxpool.NewWithConfig(context.Background(), settings)
	if err != nil {
		return nil, badURL("the URL")
	}
	store, err := New(pool, config)
	if err != nil {
		pool.Close()
		return nil, err
	}
	store.ours = true
	return store, nil
}

// badURL does not say what the parser said, which may quote a password.
func badURL(which string) error {
	return &driver.Error{
		Kind: driver.ErrMisconfigured, Err: errors.New(which + " of Postgres can't be read"),
		Hint: "it is postgres://user@host:port/database?sslmode=…; in a password write / ? # @ % as %2F %3F %23 %40 %25",
	}
}

// Close ends the subscriptions, and closes the connections if Open made them. It
// does not release leases. Connections on which the server does not answer are
// left behind after a moment, and are gone when 15 seconds have passed.
func (s *Store) Close() {
	s.listener.close()
	if !s.ours {
		return
	}
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		s.pool.Close()
	}()
	select {
	case <-closed:
	case <-time.After(closeLimit):
	}
}

// Capabilities says that fences survive a restart and, by the clock, the loss of
// the data; see package driver.
func (s *Store) Capabilities() driver.Capabilities {
	return driver.Capabilities{FenceSurvivesRestart: true, FenceSurvivesWipe: true}
}

// Schema returns the SQL that makes the tables, for Postgres. It may be run
// again.
func Schema() string { return schemaSQL }

// ApplySchema runs Schema, in one transaction, in the first schema of the
// search_path. Programs that do so at the same time wait for each other. An
// error is a *driver.Error.
func (s *Store) ApplySchema(ctx context.Context) error {
	// Without a parameter the whole text is one request, and one transaction.
	// CREATE … IF NOT EXISTS alone may fail when another does the same.
	_, err := s.pool.Exec(ctx, schemaLock+schemaSQL)
	return s.failure(ctx, err)
}

// schemaLock is for a number that nobody else uses: "holdfast" in ASCII.
const schemaLock = "SELECT pg_advisory_xact_lock(7525352680829580148);\n"
