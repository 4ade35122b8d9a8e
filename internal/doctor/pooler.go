package doctor

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// Modes of a pooler, by what it does.
const (
	transactionMode = "in transaction mode"
	statementMode   = "in statement mode"
	sessionMode     = "in session mode, as it seems"
	unknownMode     = "its mode can't be seen"
)

// pooler says whether something like PgBouncer is in between, and how it shares
// connections.
func pooler(ctx context.Context, r *report, db *database) {
	process, err := db.process(ctx)
	if err != nil {
		return
	}
	if process == db.conn.PgConn().PID() {
		r.ok("pooler", "none: waiters are told of a release by LISTEN")
		return
	}
	mode := db.mode(ctx, r)
	found := "a pooler such as PgBouncer is in between, " + mode
	if db.prepares && mode != sessionMode {
		r.add(Warning, "pooler", found+"; the URL has statements prepared", "the next statement may meet a connection that does not know it, unless the pooler keeps track",
			"default_query_exec_mode=exec in the URL, or nothing")
		return
	}
	r.add(Note, "pooler", found, "locks work; waiters are not told of a release, since LISTEN needs a session, and ask again after 10 to 250 ms",
		"the address of the server itself in the URL, or pgstore.Config.ListenURL")
}

// process is that of the server which answers, on this connection, now.
func (db *database) process(ctx context.Context) (pid uint32, err error) {
	err = db.get(ctx, &pid, "SELECT pg_backend_pid()::int8")
	return pid, err
}

// mode finds out what the pooler does: while another client is in a transaction on
// the server's connection that we had, we are given another, unless our session
// has it for itself.
func (db *database) mode(ctx context.Context, r *report) string {
	const rounds = 3
	for range rounds {
		switch mode := db.sharing(ctx, r); mode {
		case sessionMode:
		default:
			return mode
		}
	}
	return sessionMode
}

func (db *database) sharing(ctx context.Context, r *report) string {
	other, err := dial(ctx, r, db.config)
	if err != nil {
		return unknownMode
	}
	defer other.close()
	mine, err := db.process(ctx)
	if err != nil {
		return unknownMode
	}
	limited, cancel := context.WithTimeout(ctx, time.Second) // a pool of one does not give it a connection
	defer cancel()
	tx, err := other.conn.Begin(limited)
	if err != nil {
		if said, is := errors.AsType[*pgconn.PgError](err); is && strings.Contains(said.Message, "statement pooling") {
			return statementMode
		}
		return unknownMode
	}
	defer tx.Rollback(context.WithoutCancel(limited))
	var theirs uint32
	if err := tx.QueryRow(limited, "SELECT pg_backend_pid()::int8").Scan(&theirs); err != nil {
		return unknownMode
	}
	if theirs == mine {
		return transactionMode
	}
	return sessionMode
}
