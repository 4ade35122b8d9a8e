package sqlitestore

import (
	"database/sql"
	"errors"
	"time"

	"github.com/holdfastlock/holdfast/driver"
)

// row is what the file knows of a name.
type row struct {
	name    string
	token   string // empty: released, or never held
	fence   int64  // the last one granted or reserved
	fenced  bool   // whether the holder was told the fence; see driver.AcquireRequest.NoFence
	end     moment // when the lease ends
	since   int64  // wall clock of the last grant, in microseconds
	purpose string
}

const (
	columns   = `name, token, fence, fenced, boot, up, wall, since, purpose`
	selectRow = `SELECT ` + columns + ` FROM lease WHERE name = ?`
	writeRow  = `INSERT OR REPLACE INTO lease (` + columns + `) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`
)

// querier is a database or a transaction.
type querier interface {
	QueryRow(query string, args ...any) *sql.Row
}

// load returns the row of the name, or one that says that nobody ever held it.
func load(q querier, name string) (row, error) {
	return found(q.QueryRow(selectRow, name), name)
}

// found is load for a query already made.
func found(answer *sql.Row, name string) (row, error) {
	r, err := scan(answer.Scan)
	if errors.Is(err, sql.ErrNoRows) {
		return row{name: name}, nil
	}
	return r, err
}

func scan(into func(...any) error) (row, error) {
	var r row
	err := into(&r.name, &r.token, &r.fence, &r.fenced, &r.end.boot, &r.end.up, &r.end.wall, &r.since, &r.purpose)
	return r, err
}

func (r row) save(tx *sql.Tx) error {
	_, err := tx.Exec(writeRow, r.values()...)
	return err
}

func (r row) values() []any {
	return []any{r.name, r.token, r.fence, r.fenced, r.end.boot, r.end.up, r.end.wall, r.since, r.purpose}
}

// held says whether somebody holds the name.
func (r row) held(now moment) bool { return r.token != "" && !r.end.before(now) }

// compare says what there is for somebody who has the token.
func (r row) compare(token string, now moment) driver.Answer {
	switch {
	case !r.held(now):
		return driver.Gone
	case r.token != token:
		return driver.Taken
	default:
		return driver.Mine
	}
}

// prolong makes the lease last ttl from now, unless it lasts longer already.
func (r *row) prolong(ttl time.Duration, now moment) {
	if end := now.after(ttl); r.end.until(now) < end.until(now) {
		r.end = end
	}
}

// told returns the fence as the holder was given it: 0 if it asked for none.
func (r row) told() int64 {
	if !r.fenced {
		return 0
	}
	return r.fence
}

func (r row) state(now moment) driver.State {
	state := driver.State{Name: r.name, Fence: r.fence}
	if r.held(now) {
		state.Holders = []driver.Holder{{
			Token:   r.token,
			Fence:   r.told(),
			Age:     max(0, time.Duration(now.wall-r.since)*time.Microsecond),
			Left:    r.end.until(now),
			Purpose: r.purpose,
			Mode:    driver.Exclusive,
		}}
	}
	return state
}
