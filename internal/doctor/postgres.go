package doctor

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfastlock/holdfast/driver"
	"github.com/holdfastlock/holdfast/open"
)

// database is a connection to a Postgres database.
type database struct {
	config   *pgx.ConnConfig
	prepares bool // the URL has statements prepared
	conn     *pgx.Conn
	lost     error // why it can't be asked any more
}

// examinePostgres examines the database that the URL leads to.
func examinePostgres(ctx context.Context, r *report, url string) error {
	config, prepares, err := postgresConfig(ctx, url)
	if err != nil {
		return err
	}
	db, err := dial(ctx, r, config)
	if err != nil {
		return explainPostgres(ctx, url, err)
	}
	defer db.close()
	db.prepares = prepares
	for _, check := range []func(context.Context, *report, *database){
		postgresVersion, postgresRole, encoding, tables, privileges, durable, standbys, pooler, limits, connections,
		postgresClock, postgresRoundTrip,
	} {
		if db.lost == nil {
			check(ctx, r, db)
		}
	}
	return explainPostgres(ctx, url, db.lost)
}

// postgresConfig reads the URL as the store does, which has the errors.
func postgresConfig(ctx context.Context, url string) (config *pgx.ConnConfig, prepares bool, err error) {
	_, closer, err := open.Store(ctx, url, open.Options{}) // does no I/O
	if err != nil {
		return nil, false, err
	}
	_ = closer.Close()
	settings, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, false, &driver.Error{Kind: driver.ErrMisconfigured, Err: errors.New("the URL can't be read")}
	}
	config = settings.ConnConfig
	prepares = strings.Contains(url, "default_query_exec_mode=cache_statement")
	config.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol // works through every pooler
	return config, prepares, nil
}

// dial connects. It tries until the time to connect is over, unless a server
// answers and refuses.
func dial(ctx context.Context, r *report, config *pgx.ConnConfig) (*database, error) {
	limited, cancel := context.WithTimeout(ctx, r.ConnectTimeout)
	defer cancel()
	var last error
	for {
		conn, err := pgx.ConnectConfig(limited, config)
		if err == nil {
			return &database{config: config, conn: conn}, nil
		}
		if last == nil || limited.Err() == nil { // that the time is over says less
			last = err
		}
		if _, is := errors.AsType[*pgconn.PgError](err); is {
			return nil, err
		}
		select {
		case <-limited.Done():
			return nil, last
		case <-time.After(retryPause):
		}
	}
}

func (db *database) close() {
	brief, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = db.conn.Close(brief) // it ends in any case
	select {
	case <-db.conn.PgConn().CleanupDone():
	case <-brief.Done():
	}
}

// explainPostgres gives an error its place among those of package driver. Of what
// a server said, the store itself knows the meaning, so it is asked for its own.
func explainPostgres(ctx context.Context, url string, err error) error {
	if err == nil {
		return nil
	}
	if _, is := errors.AsType[*pgconn.PgError](err); !is {
		return driver.NoAnswer(ctx, err)
	}
	return storesOwn(ctx, url)
}

// get asks for one value. A failure other than the server's refusal ends the
// examination.
func (db *database) get(ctx context.Context, value any, sql string, args ...any) error {
	limited, cancel := context.WithTimeout(ctx, replyLimit)
	defer cancel()
	err := db.conn.QueryRow(limited, sql, args...).Scan(value)
	if _, is := errors.AsType[*pgconn.PgError](err); err != nil && !is && !errors.Is(err, pgx.ErrNoRows) {
		db.lost = err
	}
	return err
}

// setting is a setting of the server for this user and database, or "".
func (db *database) setting(ctx context.Context, name string) string {
	var value *string
	if db.get(ctx, &value, "SELECT current_setting($1, true)", name) != nil || value == nil {
		return ""
	}
	return *value
}

func postgresVersion(ctx context.Context, r *report, db *database) {
	version := db.setting(ctx, "server_version")
	number, _ := strconv.Atoi(db.setting(ctx, "server_version_num"))
	const oldest = 130000
	switch {
	case db.lost != nil:
	case number < oldest:
		r.add(Failure, "version", "Postgres "+version, "holdfast needs 13 or later", "upgrade the server")
	default:
		r.ok("version", "Postgres "+version)
	}
}

// postgresRole fails for a server that lets nobody write.
func postgresRole(ctx context.Context, r *report, db *database) {
	var standby bool
	if err := db.get(ctx, &standby, "SELECT pg_is_in_recovery()"); err != nil {
		return
	}
	switch {
	case standby:
		r.add(Failure, "role", "standby", "a standby grants no lock", "name all servers in the URL, with target_session_attrs=read-write")
	case db.setting(ctx, "default_transaction_read_only") == "on":
		r.add(Failure, "role", "primary, default_transaction_read_only on", "no lock is granted", "ALTER ROLE "+db.user()+" SET default_transaction_read_only = off")
	default:
		r.ok("role", "primary")
	}
}

func encoding(ctx context.Context, r *report, db *database) {
	switch name := db.setting(ctx, "server_encoding"); name {
	case "":
	case "UTF8":
		r.ok("encoding", name)
	default:
		r.add(Failure, "encoding", name, "names and purposes are UTF-8", "CREATE DATABASE … ENCODING UTF8")
	}
}

// user is the user's name, quoted for SQL.
func (db *database) user() string { return pgx.Identifier{db.config.User}.Sanitize() }

// limits says which time limits of the server touch locks.
func limits(ctx context.Context, r *report, db *database) {
	idle := db.setting(ctx, "idle_in_transaction_session_timeout")
	if idle == "0" {
		r.add(Note, "idle-transactions", "idle_in_transaction_session_timeout 0",
			"with pgstore.Guard, a program that hangs in its transaction keeps the name from being granted for as long",
			"ALTER ROLE "+db.user()+" SET idle_in_transaction_session_timeout = '1min'")
	} else if idle != "" {
		r.ok("idle-transactions", "idle_in_transaction_session_timeout "+idle)
	}
	if session := db.setting(ctx, "idle_session_timeout"); session != "0" && session != "" {
		r.add(Note, "idle-sessions", "idle_session_timeout "+session,
			"connections that wait to be told of a release are closed and made again",
			"ALTER ROLE "+db.user()+" SET idle_session_timeout = 0")
	}
}

// connections says how many more the server takes.
func connections(ctx context.Context, r *report, db *database) {
	var used, most int
	err := db.get(ctx, &used, "SELECT coalesce(sum(numbackends), 0)::int FROM pg_stat_database")
	if err == nil {
		err = db.get(ctx, &most, "SELECT current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int")
	}
	if err != nil {
		return
	}
	found := fmt.Sprintf("%d of %d used", used, most)
	const why = "a program that gets no connection gets no lock, and can't extend one"
	fix := fmt.Sprintf("ALTER SYSTEM SET max_connections = %d, then restart the server; or PgBouncer", 2*most)
	switch {
	case used >= most:
		r.add(Failure, "connections", found, why, fix)
	case used*5 >= most*4:
		r.add(Warning, "connections", found, why, fix)
	default:
		r.ok("connections", found)
	}
}

func postgresClock(ctx context.Context, r *report, db *database) {
	read, err := readClock(func() (now time.Time, err error) {
		err = db.get(ctx, &now, "SELECT clock_timestamp()")
		return now, err
	})
	if err == nil {
		judgeClock(r, read)
	}
}

func postgresRoundTrip(ctx context.Context, r *report, db *database) {
	trips, err := measure(func() error {
		var one int
		return db.get(ctx, &one, "SELECT 1")
	})
	if err == nil {
		judgeRoundTrips(r, trips)
	}
}
