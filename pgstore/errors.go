package pgstore

import (
	"context"
	"errors"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/puddle/v2"

	"github.com/holdfastlock/holdfast/driver"
)

// Codes of the server's errors that are used beside the table.
const (
	codeSerialization = "40001"
	codeDeadlock      = "40P01"
	codeLockTimeout   = "55P03"
	codeProtocol      = "08P01" // of everything, with PgBouncer
)

// errLocked says that a row was locked by another for too long. Nothing was
// done.
var errLocked = errors.New("the row is locked by a transaction")

// fault is what an error of the server means for a lock.
type fault struct {
	kind error
	hint string
}

// faults are the server's errors by their code, or the class, which is its first
// two characters. Others, such as a failing disk, a shutdown or a statement that
// somebody cancelled, leave the outcome unknown: the statement may have been
// committed just before.
var faults = map[string]fault{
	"28":    {driver.ErrRefused, "wrong user or password, or pg_hba.conf does not let this user in from here"},
	"42501": {driver.ErrRefused, "the user needs SELECT, INSERT, UPDATE and DELETE on holdfast_lease and holdfast_slot, and to make them CREATE on the schema"},
	"25006": {driver.ErrRefused, "a read-only standby, or a user or database set to read only: use the primary's address, or all addresses with target_session_attrs=read-write"},
	"53100": {driver.ErrRefused, "the server's disk is full"},
	"53200": {driver.ErrRefused, "the server's memory is full"},
	"53300": {driver.ErrUnreachable, "the server has no connection left: see max_connections"},
	"57P03": {driver.ErrUnreachable, "the server is just starting or stopping"},
	"3D000": {driver.ErrMisconfigured, "the server has no such database"},
	"3F000": {driver.ErrMisconfigured, missing},
	"42P01": {driver.ErrMisconfigured, missing},
	"42703": {driver.ErrMisconfigured, "the tables are those of another version, or of another program"},
	"42":    {driver.ErrMisconfigured, ""},
	"22021": {driver.ErrMisconfigured, notUTF8},
	"22P05": {driver.ErrMisconfigured, notUTF8},
	"22":    {driver.ErrMisconfigured, ""},
	"26000": {driver.ErrMisconfigured, unprepared},
	"42P05": {driver.ErrMisconfigured, unprepared},
}

// phrases are errors of PgBouncer, which has one code for all, also for what the
// server said to it, and for a server that is down.
var phrases = map[string]fault{
	"unsupported startup parameter": {driver.ErrMisconfigured, "a pooler lets no such parameter pass: leave it out of the URL, and set it for the user by ALTER ROLE"},
	"no such database":              {driver.ErrMisconfigured, "the pooler has no such database"},
	"does not exist":                {driver.ErrMisconfigured, "the server behind the pooler has no such database or user"},
	"no such user":                  {driver.ErrRefused, "the pooler has no such user"},
	"auth failed":                   {driver.ErrRefused, wrongPassword},
	"authentication failed":         {driver.ErrRefused, wrongPassword},
}

const (
	missing       = "the tables are not there: run holdfast schema apply, or have the search_path lead to them"
	wrongPassword = "wrong user or password"
	notUTF8       = "the database must have the encoding UTF8"
	unprepared    = "a pooler in transaction mode: use default_query_exec_mode=exec"
)

// faultOf finds the meaning of a server's error.
func faultOf(said *pgconn.PgError) (fault, bool) {
	if said.Code == codeProtocol {
		for phrase, f := range phrases {
			if strings.Contains(said.Message, phrase) {
				return f, true
			}
		}
	}
	f, found := faults[said.Code]
	if !found && len(said.Code) > 2 {
		f, found = faults[said.Code[:2]]
	}
	return f, found
}

// undone says that the server has undone a statement for the sake of others.
func undone(err error) bool {
	said, is := errors.AsType[*pgconn.PgError](err)
	return is && (said.Code == codeSerialization || said.Code == codeDeadlock)
}

// failure turns an error of the client into one of driver's.
func (s *Store) failure(ctx context.Context, err error) error {
	if said, is := errors.AsType[*pgconn.PgError](err); is {
		if said.Code == codeLockTimeout {
			return &driver.Error{Kind: driver.ErrUnreachable, Err: errors.Join(errLocked, err)}
		}
		if f, known := faultOf(said); known {
			return &driver.Error{Kind: f.kind, Hint: f.hint, Err: err}
		}
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, puddle.ErrClosedPool):
		return &driver.Error{Kind: driver.ErrMisconfigured, Err: errors.New("the store was closed")}
	default:
		return driver.NoAnswer(ctx, err)
	}
}
