package pgstore

import (
	"context"
	"errors"
	"iter"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfastlock/holdfast/driver"
)

// lockWait is how long an acquire waits at the server for a row that somebody
// has locked, such as a guard, before it answers that the name is held. It uses a
// connection of the pool meanwhile.
const lockWait = time.Second

var errShared = errors.New("this store has exclusive locks only")

// Acquire implements driver.Store. Only Exclusive is supported. A name whose
// lease has ended is not free while a guard has it: the answer then comes when
// the guard ends, or after a second, and shows the last holder with nothing left.
func (s *Store) Acquire(ctx context.Context, req driver.AcquireRequest) (driver.AcquireResult, error) {
	var none driver.AcquireResult
	if err := driver.CheckName(req.Name); err != nil {
		return none, err
	}
	if req.Mode != driver.Exclusive {
		return none, &driver.Error{Kind: driver.ErrUnsupported, Err: errShared}
	}
	for {
		answers, err := query(ctx, s, acquireSQL, scanAttempt, req.Name, req.Token, micro(req.TTL), req.Purpose,
			!req.NoFence, req.Last(0), strconv.FormatInt(waitAtServer(ctx).Milliseconds(), 10))
		switch {
		case errors.Is(err, errLocked):
			return s.guarded(ctx, req.Name)
		case err != nil:
			return none, err
		case len(answers) == 0: // another was faster
			continue
		}
		a := answers[0]
		switch {
		case a.granted && a.fenced:
			return driver.AcquireResult{Granted: true, Fence: req.First(a.fence)}, nil
		case a.granted:
			return driver.AcquireResult{Granted: true}, nil
		case a.withdrawn:
			return none, driver.ErrWithdrawn
		case a.held():
			return driver.AcquireResult{State: a.state()}, nil
		}
	}
}

// attempt is an answer of acquire.sql.
type attempt struct {
	granted, withdrawn bool
	row
}

func scanAttempt(from pgx.CollectableRow) (attempt, error) {
	var a attempt
	err := from.Scan(append([]any{&a.granted, &a.withdrawn}, a.fields()...)...)
	return a, err
}

// waitAtServer leaves time to hear the answer; 0 would mean no limit.
func waitAtServer(ctx context.Context) time.Duration {
	wait := lockWait
	if deadline, limited := ctx.Deadline(); limited {
		wait = min(wait, time.Until(deadline)/2)
	}
	return max(wait, time.Millisecond)
}

// guarded is the answer for a name whose row is locked.
func (s *Store) guarded(ctx context.Context, name string) (driver.AcquireResult, error) {
	r, err := s.read(ctx, name)
	if err != nil {
		return driver.AcquireResult{}, err
	}
	state := r.state()
	if !r.held() && r.token != "" {
		state.Holders = []driver.Holder{r.holder()}
	}
	return driver.AcquireResult{State: state}, nil
}

// Extend implements driver.Store. All leases are extended by one statement.
func (s *Store) Extend(ctx context.Context, reqs []driver.ExtendRequest) []driver.ExtendResult {
	results := make([]driver.ExtendResult, len(reqs))
	var names, tokens []string
	var ttls []int64
	var places []int // in results, of what is asked
	for i, req := range reqs {
		if results[i].Err = driver.CheckName(req.Name); results[i].Err == nil {
			names, tokens, ttls = append(names, req.Name), append(tokens, req.Token), append(ttls, micro(req.TTL))
			places = append(places, i)
		}
	}
	if len(places) == 0 {
		return results
	}
	answers, err := query(ctx, s, extendSQL, pgx.RowToStructByPos[placed], names, tokens, ttls)
	for _, i := range places {
		results[i].Err = err
	}
	for _, a := range answers {
		results[places[a.Place-1]].Answer = a.Answer
	}
	return results
}

// placed is an answer of extend.sql.
type placed struct {
	Place  int64
	Answer driver.Answer
}

// sweepOdds: one release in so many also removes up to sweepLimit rows that
// nobody needs, several times what comes in between.
const (
	sweepOdds  = 64
	sweepLimit = 256
)

// Release implements driver.Store. The row stays, with its fence.
func (s *Store) Release(ctx context.Context, req driver.ReleaseRequest) (driver.Answer, error) {
	if err := driver.CheckName(req.Name); err != nil {
		return 0, err
	}
	sql, args := releaseSQL, []any{req.Name, req.Token}
	if req.Tombstone > 0 {
		sql, args = withdrawSQL, append(args, micro(req.Tombstone))
	}
	answer, err := queryOne(ctx, s, sql, pgx.RowTo[driver.Answer], args...)
	if answer == driver.Mine && rand.N(sweepOdds) == 0 {
		s.sweep(ctx)
	}
	return answer, err
}

// sweep leaves what fails to the next.
func (s *Store) sweep(ctx context.Context) { _, _ = s.pool.Exec(ctx, sweepSQL, sweepLimit) }

// Inspect implements driver.Store.
func (s *Store) Inspect(ctx context.Context, name string) (driver.State, error) {
	if err := driver.CheckName(name); err != nil {
		return driver.State{}, err
	}
	r, err := s.read(ctx, name)
	return r.state(), err
}

// read returns the row of the name, or one that says that nobody ever held it.
func (s *Store) read(ctx context.Context, name string) (row, error) {
	rows, err := query(ctx, s, inspectSQL, scanRow, name)
	if err != nil || len(rows) == 0 {
		return row{name: name}, err
	}
	return rows[0], nil
}

// List implements driver.Lister. It reads all states before it yields the first,
// so that a slow caller keeps no connection.
func (s *Store) List(ctx context.Context, pattern string) iter.Seq2[driver.State, error] {
	return func(yield func(driver.State, error) bool) {
		rows, err := query(ctx, s, listSQL, scanRow, likePattern.Replace(pattern))
		if err != nil {
			yield(driver.State{}, err)
			return
		}
		for _, r := range rows {
			if !yield(r.state(), nil) {
				return
			}
		}
	}
}

var likePattern = strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`, `*`, `%`, `?`, `_`)

// micro rounds up: the holder must stop before the store lets another in.
func micro(d time.Duration) int64 {
	us := d.Microseconds()
	if d > time.Duration(us)*time.Microsecond {
		us++
	}
	return us
}

// query runs one statement and collects what it returns. What the server has
// undone because others were at work is asked again: nothing was done.
func query[T any](ctx context.Context, s *Store, sql string, scan pgx.RowToFunc[T], args ...any) ([]T, error) {
	for {
		answers, err := queryOnce(ctx, s, sql, scan, args)
		if !undone(err) || ctx.Err() != nil {
			return answers, s.failure(ctx, err)
		}
	}
}

func queryOnce[T any](ctx context.Context, s *Store, sql string, scan pgx.RowToFunc[T], args []any) ([]T, error) {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Release()
	rows, _ := conn.Query(ctx, sql, append(options(conn.Conn()), args...)...) // CollectRows returns its error
	return pgx.CollectRows(rows, scan)
}

// queryOne is query for a statement that returns one row.
func queryOne[T any](ctx context.Context, s *Store, sql string, scan pgx.RowToFunc[T], args ...any) (T, error) {
	answers, err := query(ctx, s, sql, scan, args...)
	if err != nil || len(answers) == 0 {
		var none T
		return none, err
	}
	return answers[0], nil
}
