package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"iter"
	"strings"

	"github.com/holdfastlock/holdfast/driver"
)

// Acquire implements driver.Store. Only Exclusive is supported.
func (s *Store) Acquire(ctx context.Context, req driver.AcquireRequest) (driver.AcquireResult, error) {
	if err := driver.CheckName(req.Name); err != nil {
		return driver.AcquireResult{}, err
	}
	if req.Mode != driver.Exclusive {
		return driver.AcquireResult{}, &driver.Error{Kind: driver.ErrUnsupported, Err: errShared}
	}
	s.wakes.beforeAttempt(req.Name)
	result, err := write(ctx, s, func(tx *sql.Tx, now moment) (driver.AcquireResult, error) {
		return acquire(tx, now, req)
	})
	s.wakes.afterAttempt(req, result)
	return result, err
}

var errShared = errors.New("a file holds exclusive locks only")

func acquire(tx *sql.Tx, now moment, req driver.AcquireRequest) (driver.AcquireResult, error) {
	var none driver.AcquireResult
	if err := checkTombstone(tx, now, req.Token); err != nil {
		return none, err
	}
	r, err := load(tx, req.Name)
	if err != nil {
		return none, err
	}
	switch r.compare(req.Token, now) {
	case driver.Taken:
		return driver.AcquireResult{State: r.state(now)}, nil
	case driver.Gone:
		r.token, r.purpose = req.Token, req.Purpose
		r.fence, r.fenced = req.Last(max(r.fence+1, now.wall)), !req.NoFence
		r.since, r.end = now.wall, now.after(req.TTL)
	case driver.Mine:
		r.prolong(req.TTL, now)
	}
	if err := r.save(tx); err != nil {
		return none, err
	}
	result := driver.AcquireResult{Granted: true}
	if r.fenced {
		result.Fence = req.First(r.fence)
	}
	return result, nil
}

// Extend implements driver.Store. All leases are extended in one transaction, so
// that many cost one write to the disk.
func (s *Store) Extend(ctx context.Context, reqs []driver.ExtendRequest) []driver.ExtendResult {
	own := append([]driver.ExtendRequest(nil), reqs...) // read after a context has ended
	results, err := write(ctx, s, func(tx *sql.Tx, now moment) ([]driver.ExtendResult, error) {
		return extend(tx, now, own)
	})
	if err != nil {
		results = make([]driver.ExtendResult, len(reqs))
		for i := range results {
			results[i].Err = err
		}
		return results
	}
	for i, r := range results {
		switch r.Answer {
		case driver.Mine:
			s.wakes.extend(reqs[i].Name, reqs[i].Token, reqs[i].TTL)
		case driver.Gone, driver.Taken:
			s.wakes.release(reqs[i].Name, reqs[i].Token)
		}
	}
	return results
}

func extend(tx *sql.Tx, now moment, reqs []driver.ExtendRequest) ([]driver.ExtendResult, error) {
	get, err := tx.Prepare(selectRow) // once for all: most of the time goes there
	if err != nil {
		return nil, err
	}
	defer get.Close()
	put, err := tx.Prepare(writeRow)
	if err != nil {
		return nil, err
	}
	defer put.Close()
	results := make([]driver.ExtendResult, len(reqs))
	for i, req := range reqs {
		if results[i].Err = driver.CheckName(req.Name); results[i].Err != nil {
			continue
		}
		r, err := found(get.QueryRow(req.Name), req.Name)
		if err != nil {
			return nil, err
		}
		results[i].Answer = r.compare(req.Token, now)
		if results[i].Answer != driver.Mine {
			continue
		}
		r.prolong(req.TTL, now)
		if _, err := put.Exec(r.values()...); err != nil {
			return nil, err
		}
	}
	return results, nil
}

// Release implements driver.Store. The row stays, with its fence.
func (s *Store) Release(ctx context.Context, req driver.ReleaseRequest) (driver.Answer, error) {
	if err := driver.CheckName(req.Name); err != nil {
		return 0, err
	}
	answer, err := write(ctx, s, func(tx *sql.Tx, now moment) (driver.Answer, error) {
		return release(tx, now, req)
	})
	if err == nil {
		s.wakes.release(req.Name, req.Token)
	}
	return answer, err
}

func release(tx *sql.Tx, now moment, req driver.ReleaseRequest) (driver.Answer, error) {
	if req.Tombstone > 0 {
		if err := setTombstone(tx, now, req.Token, req.Tombstone); err != nil {
			return 0, err
		}
	}
	r, err := load(tx, req.Name)
	if err != nil {
		return 0, err
	}
	answer := r.compare(req.Token, now)
	if answer != driver.Mine {
		return answer, nil
	}
	r.token, r.purpose = "", ""
	if err := r.save(tx); err != nil {
		return 0, err
	}
	return answer, sometimesSweep(tx, now)
}

// Inspect implements driver.Store.
func (s *Store) Inspect(ctx context.Context, name string) (driver.State, error) {
	if err := driver.CheckName(name); err != nil {
		return driver.State{}, err
	}
	return read(ctx, s, func(db *sql.DB, now moment) (driver.State, error) {
		r, err := load(db, name)
		return r.state(now), err
	})
}

// List implements driver.Lister. It reads all states before it yields the first,
// so that a slow caller does not keep the file from being tidied.
func (s *Store) List(ctx context.Context, pattern string) iter.Seq2[driver.State, error] {
	return func(yield func(driver.State, error) bool) {
		states, err := read(ctx, s, func(db *sql.DB, now moment) ([]driver.State, error) {
			return list(db, now, pattern)
		})
		if err != nil {
			yield(driver.State{}, err)
			return
		}
		for _, state := range states {
			if !yield(state, nil) {
				return
			}
		}
	}
}

func list(db *sql.DB, now moment, pattern string) ([]driver.State, error) {
	glob := strings.ReplaceAll(pattern, "[", "[[]") // special for SQLite, not for us
	rows, err := db.Query(`SELECT `+columns+` FROM lease WHERE token <> '' AND name GLOB ?`, glob)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var states []driver.State
	for rows.Next() {
		r, err := scan(rows.Scan)
		if err != nil {
			return nil, err
		}
		if r.held(now) {
			states = append(states, r.state(now))
		}
	}
	return states, rows.Err()
}
