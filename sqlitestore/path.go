package sqlitestore

import (
	"errors"
	"os"
	"os/user"
	"path/filepath"
	"strconv"

	"github.com/holdfastlock/holdfast/driver"
)

const (
	dirMode  = 0o700 // tokens prove ownership: nobody else may read them
	fileMode = 0o600
)

// DefaultPath returns where the locks of this user on this machine are kept:
// /var/lib/holdfast/holdfast.db for root, for others holdfast/holdfast.db in
// $XDG_STATE_HOME or ~/.local/state. Without HOME the home directory comes from
// the password file. So root and each user have locks of their own. The error
// is a *driver.Error of kind ErrMisconfigured.
func DefaultPath() (string, error) {
	return defaultPath(os.Geteuid(), os.Getenv, user.LookupId)
}

func defaultPath(uid int, env func(string) string, lookup func(uid string) (*user.User, error)) (string, error) {
	if uid == 0 {
		return "/var/lib/holdfast/holdfast.db", nil
	}
	// A relative path would mean another file in each working directory.
	if state := env("XDG_STATE_HOME"); filepath.IsAbs(state) {
		return filepath.Join(state, "holdfast", "holdfast.db"), nil
	}
	home := env("HOME")
	if !filepath.IsAbs(home) {
		u, err := lookup(strconv.Itoa(uid))
		if err == nil && !filepath.IsAbs(u.HomeDir) {
			err = errors.New("the password file names no home directory")
		}
		if err != nil {
			return "", &driver.Error{
				Kind: driver.ErrMisconfigured,
				Err:  err,
				Hint: "no place for the lock file: set HOME or XDG_STATE_HOME, or give a path as in sqlite:///var/lib/app/locks.db",
			}
		}
		home = u.HomeDir
	}
	return filepath.Join(home, ".local", "state", "holdfast", "holdfast.db"), nil
}

// prepare makes the directory and an empty file with modes of our choice, since
// SQLite would create it by the umask, and says clearly what prevents it.
func prepare(path string) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, dirMode); err != nil {
		return openError(dir, err)
	}
	if err := checkFileSystem(dir); err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, fileMode)
	if err != nil {
		return openError(path, err)
	}
	return file.Close()
}
