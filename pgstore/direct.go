package pgstore

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// directNote is where a connection has the note that it leads to the server
// itself.
const directNote = "holdfast: direct"

// noteDirect notes on a new connection whether it leads to the server itself.
func noteDirect(ctx context.Context, conn *pgx.Conn) error {
	direct, err := isDirect(ctx, conn)
	conn.PgConn().CustomData()[directNote] = direct
	return err
}

// isDirect compares the process of the server that was named when the connection
// was made with the one that answers: a pooler names one that it has made up.
func isDirect(ctx context.Context, conn *pgx.Conn) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, replyLimit) // the pool sets no limit
	defer cancel()
	var process uint32
	err := conn.QueryRow(ctx, "SELECT pg_backend_pid()", pgx.QueryExecModeSimpleProtocol).Scan(&process)
	return process == conn.PgConn().PID(), err
}

// options returns what stands before the arguments of a statement: on a
// connection that leads to the server itself it is prepared once; on one that
// has no note the connection's own setting counts.
func options(conn *pgx.Conn) []any {
	if direct, _ := conn.PgConn().CustomData()[directNote].(bool); direct {
		return []any{pgx.QueryExecModeCacheStatement}
	}
	return nil
}
