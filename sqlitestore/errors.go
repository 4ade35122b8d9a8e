package sqlitestore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"github.com/holdfastlock/holdfast/driver"
	"github.com/ncruces/go-sqlite3"
)

var errClosed = &driver.Error{Kind: driver.ErrMisconfigured, Err: errors.New("the store was closed")}

// openError says why the file or directory can't be used.
func openError(path string, err error) error {
	switch {
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return &driver.Error{Kind: driver.ErrRefused, Err: err,
			Hint: "this user must be able to write the file and its directory"}
	case noSpace(err):
		return &driver.Error{Kind: driver.ErrRefused, Err: err, Hint: "free some space on the disk"}
	default:
		return &driver.Error{Kind: driver.ErrMisconfigured, Err: err,
			Hint: fmt.Sprintf("%s can't be used for locks", path)}
	}
}

func noSpace(err error) bool {
	return errors.Is(err, sqlite3.FULL) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// busy says that another process has the database for itself just now.
func busy(err error) bool {
	return errors.Is(err, sqlite3.BUSY) || errors.Is(err, sqlite3.LOCKED)
}

// failure gives err, from SQLite, its place in the contract. What it does not
// know, such as a failed write to the disk, is an unknown outcome.
func (s *Store) failure(ctx context.Context, err error) error {
	var known *driver.Error
	var kind error
	var hint string
	switch {
	case err == nil, errors.As(err, &known), errors.Is(err, driver.ErrWithdrawn):
		return err
	case ctx.Err() != nil:
		return driver.NoAnswer(ctx, err)
	case noSpace(err):
		kind, hint = driver.ErrRefused, "free some space on the disk"
	case errors.Is(err, sqlite3.READONLY), errors.Is(err, sqlite3.PERM), errors.Is(err, sqlite3.CANTOPEN),
		errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		kind, hint = driver.ErrRefused, "this user must be able to write the file, those beside it and the directory"
	case errors.Is(err, sqlite3.NOTADB), errors.Is(err, sqlite3.CORRUPT):
		kind, hint = driver.ErrMisconfigured, "the file is damaged or not a database; choose another, or move it away while nobody holds a lock"
	default:
		kind = driver.ErrUnreachable
	}
	return &driver.Error{Kind: kind, Hint: hint, Err: fmt.Errorf("%s: %w", s.path, err)}
}
