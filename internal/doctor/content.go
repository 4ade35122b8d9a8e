package doctor

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"strings"

	"github.com/ncruces/go-sqlite3"

	"github.com/holdfastlock/holdfast/sqlitestore"
)

// content looks into the file: its format, and whether it is damaged.
func (e *embedded) content(ctx context.Context, r *report) {
	conn, err := sqlite3.OpenFlags(e.address(), sqlite3.OPEN_READONLY|sqlite3.OPEN_URI)
	if err != nil {
		r.add(Failure, "content", oneLine(err), "no lock can be taken", "")
		return
	}
	defer conn.Close()
	conn.SetInterrupt(ctx)
	version, err := pragma(conn, "user_version")
	if err == nil {
		e.format(r, version)
		version, err = pragma(conn, "quick_check(1)")
	}
	switch {
	case err != nil:
		r.add(Failure, "content", oneLine(err), "no lock can be taken", "move the file away while nobody holds a lock; fences grow all the same")
	case version != "ok":
		r.add(Failure, "content", "damaged: "+version, "locks may be forgotten", "move the file away while nobody holds a lock; fences grow all the same")
	default:
		r.ok("content", "no damage; every write is synced to the disk (WAL, synchronous FULL)")
	}
}

// address is that of the file, to be read. SQLite makes the files beside it that
// are missing even to read, unless it is told that nobody writes; and where there
// is no write-ahead log, everything is in the file.
func (e *embedded) address() string {
	query := "mode=ro"
	if log, err := os.Stat(e.path + "-wal"); err != nil || log.Size() == 0 {
		query = "immutable=1"
	}
	uri := url.URL{Scheme: "file", OmitHost: true, Path: e.path, RawQuery: query}
	return uri.String()
}

// pragma asks for one value.
func pragma(conn *sqlite3.Conn, name string) (string, error) {
	stmt, _, err := conn.Prepare("PRAGMA " + name)
	if err != nil {
		return "", err
	}
	defer stmt.Close()
	value := ""
	if stmt.Step() {
		value = strings.ReplaceAll(stmt.ColumnText(0), "\n", "; ")
	}
	return value, stmt.Err()
}

// format says whether this holdfast can use the file.
func (e *embedded) format(r *report, version string) {
	number := 0
	_, _ = fmt.Sscan(version, &number) // it is a number
	found := fmt.Sprintf("format %d", number)
	switch {
	case number > sqlitestore.Format:
		r.add(Failure, "format", found, fmt.Sprintf("this holdfast knows format %d", sqlitestore.Format), "the holdfast that wrote the file, or another path")
	case number < sqlitestore.Format:
		r.add(Note, "format", found, fmt.Sprintf("the next use makes it format %d, which an older holdfast refuses", sqlitestore.Format), "")
	default:
		r.ok("format", found)
	}
}
