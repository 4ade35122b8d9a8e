// Package sqlitestore keeps locks in a SQLite file: the embedded store for the
// processes of one machine, with no server and nothing to set up.
//
// What holds: every step is one transaction under the file's write lock, synced
// to the disk before it is answered, so leases and fences survive kill -9 and a
// power cut. Expiry is compared by the machine's boot clock (CLOCK_BOOTTIME on
// Linux), which nobody can set and which goes on while the machine sleeps; only
// a lease from another boot is compared by the wall clock. Fences grow also when
// the file is deleted, unless the wall clock was set back past the last grant.
//
// What does not: the file must be on a local disk of one machine. Network and
// FUSE file systems are refused on Linux, where they can be recognised. A
// program that copies or replaces the file while locks are held breaks them.
// Elsewhere than on Linux, expiry is by the wall clock, and a clock set forward
// ends leases early.
//
// A release wakes waiters of other processes on Linux; see Store.Subscribe.
package sqlitestore

import (
	"context"
	"database/sql"
	"net/url"
	"path/filepath"
	"strings"
	"sync"

	"github.com/holdfastlock/holdfast/driver"
	sqlite "github.com/ncruces/go-sqlite3/driver"
)

// Store keeps locks in one file. It implements driver.Store, driver.Notifier,
// driver.Lister and driver.SlotKeeper, and is safe for concurrent use, also by
// many processes that each opened the file.
type Store struct {
	path  string
	db    *sql.DB
	wakes *wakes
	now   func() moment
	turn  chan struct{} // held by the goroutine that writes

	mu      sync.Mutex // guards closed, and running against Close
	closed  bool
	running sync.WaitGroup // steps under way
}

var (
	_ driver.Store      = (*Store)(nil)
	_ driver.Notifier   = (*Store)(nil)
	_ driver.Lister     = (*Store)(nil)
	_ driver.SlotKeeper = (*Store)(nil)
)

// Open opens the file, and creates it and its directory, for this user only,
// where they are missing. It waits for a busy database until ctx ends. Errors
// are *driver.Error: ErrMisconfigured for a file system shared between machines,
// a damaged file, or one that another program or a newer holdfast wrote;
// ErrRefused for missing permissions or space.
func Open(ctx context.Context, path string) (*Store, error) {
	return open(ctx, path, readNow)
}

func open(ctx context.Context, path string, now func() moment) (*Store, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, openError(path, err)
	}
	if err := prepare(path); err != nil {
		return nil, err
	}
	file, err := openRanges(path + "-wake")
	if err != nil {
		return nil, openError(path, err)
	}
	db, err := sqlite.Open(address(path), setUp)
	if err != nil {
		file.close()
		return nil, openError(path, err)
	}
	db.SetMaxOpenConns(maxConns)
	db.SetMaxIdleConns(maxConns)
	s := &Store{path: path, db: db, wakes: newWakes(file), now: now, turn: make(chan struct{}, 1)}
	_, err = write(ctx, s, func(tx *sql.Tx, _ moment) (struct{}, error) {
		return struct{}{}, createSchema(tx)
	})
	if err != nil {
		_ = s.Close() // the first error says more
		return nil, err
	}
	return s, nil
}

// address returns the path as SQLite's kind of URI. Its modeof gives the
// write-ahead log the mode of the file.
func address(path string) string {
	modeof := strings.ReplaceAll(url.QueryEscape(path), "+", "%20") // SQLite knows no +
	uri := url.URL{Scheme: "file", OmitHost: true, Path: path, RawQuery: "modeof=" + modeof}
	return uri.String()
}

// maxConns is for one writer and a few readers beside it.
const maxConns = 4

// Path returns the absolute path of the file, for messages: root and each user
// have files of their own by default, and ought to see which is meant.
func (s *Store) Path() string { return s.path }

// Capabilities says that fences survive a restart and, by the clock, the loss of
// the file; see package driver.
func (s *Store) Capabilities() driver.Capabilities {
	return driver.Capabilities{FenceSurvivesRestart: true, FenceSurvivesWipe: true}
}

// Close waits for steps under way and closes the file. It does not release
// leases. A goroutine that waits in the kernel for another process to let go of
// a name (see Subscribe) can't be interrupted: it is left behind, does nothing
// more, and ends when that process lets go or exits.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	s.mu.Unlock()
	s.running.Wait()
	s.wakes.close()
	return s.db.Close()
}

// enter counts a step that Close has to wait for, or says that it is too late.
func (s *Store) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.running.Add(1)
	return true
}
