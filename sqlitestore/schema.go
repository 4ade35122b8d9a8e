package sqlitestore

import (
	"database/sql"
	"fmt"

	"github.com/holdfastlock/holdfast/driver"
	"github.com/ncruces/go-sqlite3"
)

// schemaVersion is kept in the file's user_version.
const schemaVersion = 2

// schema is that of a new file: the first format and what was added since.
const schema = schema1 + schema2

// schema1 has one row for each name, which stays after a release to keep its
// fence (until sweep), and the tombstones. An end is a moment: boot, up, wall.
const schema1 = `
CREATE TABLE lease (
	name    TEXT PRIMARY KEY,
	token   TEXT NOT NULL,    -- empty: free
	fence   INTEGER NOT NULL, -- the last one granted or reserved
	fenced  INTEGER NOT NULL, -- 0: the holder asked for none
	boot    TEXT NOT NULL,
	up      INTEGER NOT NULL,
	wall    INTEGER NOT NULL,
	since   INTEGER NOT NULL, -- wall clock of the last grant
	purpose TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX lease_by_fence ON lease (fence); -- fences are times: oldest first
CREATE TABLE tombstone (
	token TEXT PRIMARY KEY,
	boot  TEXT NOT NULL,
	up    INTEGER NOT NULL,
	wall  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
PRAGMA user_version = 1;
`

// schema2 has one row for each slot of a job that was begun. Times are by the
// wall clock, which slots are judged by, in microseconds.
const schema2 = `
CREATE TABLE slot (
	job     TEXT NOT NULL,
	slot    TEXT NOT NULL,
	phase   INTEGER NOT NULL, -- a driver.Phase
	token   TEXT NOT NULL,
	fence   INTEGER NOT NULL,
	attempt INTEGER NOT NULL,
	began   INTEGER NOT NULL,
	ended   INTEGER NOT NULL, -- 0: not yet
	code    INTEGER NOT NULL,
	note    TEXT NOT NULL,
	keep    INTEGER NOT NULL, -- until when it is remembered
	PRIMARY KEY (job, slot)
) STRICT, WITHOUT ROWID;
CREATE INDEX slot_by_began ON slot (job, began);
CREATE INDEX slot_by_keep ON slot (keep);
PRAGMA user_version = 2;
`

// setUp prepares a new connection. WAL lets readers go on while somebody
// writes; FULL makes every commit, hence every fence, survive a power cut.
// Waiting for a busy database is the business of retry, which knows the context.
func setUp(conn *sqlite3.Conn) error {
	if err := conn.Exec(`PRAGMA busy_timeout = 0; PRAGMA synchronous = FULL`); err != nil {
		return err
	}
	stmt, _, err := conn.Prepare(`PRAGMA journal_mode = WAL`)
	if err != nil {
		return err
	}
	defer stmt.Close()
	mode := ""
	if stmt.Step() {
		mode = stmt.ColumnText(0)
	}
	if err := stmt.Err(); err != nil {
		return err
	}
	if mode != "wal" {
		return misfit("SQLite can't keep a write-ahead log here (journal mode " + mode + ")")
	}
	return nil
}

// createSchema fills a new file, brings one of an older format up to date, and
// refuses one that is not ours to use.
func createSchema(tx *sql.Tx) error {
	var version, tables, ours int
	err := tx.QueryRow(`SELECT user_version,
		(SELECT count(*) FROM sqlite_schema),
		(SELECT count(*) FROM sqlite_schema WHERE name IN ('lease', 'tombstone'))
		FROM pragma_user_version`).Scan(&version, &tables, &ours)
	switch {
	case err != nil:
		return err
	case version == 0 && tables == 0:
		_, err = tx.Exec(schema)
		return err
	case ours < 2:
		return misfit("the file is the database of another program")
	case version == 1:
		_, err = tx.Exec(schema2)
		return err
	case version != schemaVersion:
		return misfit(fmt.Sprintf("the file has format %d, this holdfast knows format %d", version, schemaVersion))
	}
	return nil
}

func misfit(reason string) error {
	return &driver.Error{Kind: driver.ErrMisconfigured, Err: fmt.Errorf("%s", reason),
		Hint: "choose another path, or the holdfast that wrote it"}
}
