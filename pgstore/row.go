package pgstore

import (
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfastlock/holdfast/driver"
)

// row is what the table has of a name. All times are by the server's clock.
type row struct {
	name    string
	token   string // empty: free
	fence   int64  // the last one granted or reserved
	fenced  bool   // whether the holder was told the fence; see driver.AcquireRequest.NoFence
	since   time.Time
	expires time.Time
	purpose string
	now     time.Time // when it was read
}

// fields are where the columns go, in the order in which every statement has
// them.
func (r *row) fields() []any {
	return []any{&r.name, &r.token, &r.fence, &r.fenced, &r.since, &r.expires, &r.purpose, &r.now}
}

func scanRow(from pgx.CollectableRow) (row, error) {
	var r row
	err := from.Scan(r.fields()...)
	return r, err
}

// held says whether somebody holds the name.
func (r row) held() bool { return r.token != "" && !r.expires.Before(r.now) }

// told returns the fence as the holder was given it: 0 if it asked for none.
func (r row) told() int64 {
	if !r.fenced {
		return 0
	}
	return r.fence
}

// holder is the one of the row, who may have ended.
func (r row) holder() driver.Holder {
	return driver.Holder{
		Token:   r.token,
		Fence:   r.told(),
		Age:     max(0, r.now.Sub(r.since)),
		Left:    max(0, r.expires.Sub(r.now)),
		Purpose: r.purpose,
		Mode:    driver.Exclusive,
	}
}

func (r row) state() driver.State {
	state := driver.State{Name: r.name, Fence: r.fence}
	if r.held() {
		state.Holders = []driver.Holder{r.holder()}
	}
	return state
}
