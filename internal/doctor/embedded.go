package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/holdfastlock/holdfast/driver"
	"github.com/holdfastlock/holdfast/open"
	"github.com/holdfastlock/holdfast/sqlitestore"
)

// Kinds of file systems, by their magic number (statfs(2) of Linux).
const (
	tmpfs   = 0x01021994
	ramfs   = 0x858458f6
	overlay = 0x794c7630
)

// leastFree is the space on the disk below which a warning is due: the file itself
// is small.
const leastFree = 64 << 20

// embedded is the file of the store, which need not be there yet.
type embedded struct {
	path   string
	there  bool
	folder string // its own, or the next above that is there
}

// examineFile examines the file that the URL names, without opening it as a store
// does, which would make it.
func examineFile(ctx context.Context, r *report, url string) error {
	path := open.Place(url)
	if !filepath.IsAbs(path) { // the URL makes no sense, or the user has no home
		_, closer, err := open.Store(ctx, url, open.Options{})
		if err == nil {
			_ = closer.Close()
		}
		return err
	}
	e := &embedded{path: path, folder: filepath.Dir(path)}
	state, err := os.Stat(path)
	switch {
	case err == nil && !state.Mode().IsRegular():
		return &driver.Error{Kind: driver.ErrMisconfigured, Err: errors.New(path + " is not a file")}
	case err == nil:
		e.there = true
	case !errors.Is(err, fs.ErrNotExist):
		r.add(Failure, "place", oneLine(err), "holdfast must be able to reach the file", "")
		return nil
	}
	for !isFolder(e.folder) && e.folder != filepath.Dir(e.folder) {
		e.folder = filepath.Dir(e.folder)
	}
	e.place(r, url == open.Local)
	e.fileSystem(r)
	e.writable(r)
	e.private(r)
	if e.there && unix.Faccessat(unix.AT_FDCWD, e.path, unix.R_OK, unix.AT_EACCESS) == nil {
		e.content(ctx, r)
	}
	return ctx.Err()
}

func isFolder(path string) bool {
	state, err := os.Stat(path)
	return err == nil && state.IsDir()
}

// place says which file is meant.
func (e *embedded) place(r *report, byDefault bool) {
	found := e.path
	if !e.there {
		found += ", which is not there yet"
	}
	if byDefault {
		r.add(Note, "place", found, "root and each user have locks of their own by default, and so does every machine",
			"--store sqlite:///PATH for all who are to exclude each other on this machine")
		return
	}
	r.ok("place", found)
}

// fileSystem says whether the file system keeps what is written, for one machine.
func (e *embedded) fileSystem(r *report) {
	if err := sqlitestore.CheckPlace(e.folder); err != nil {
		problem, hint := oneLine(err), ""
		if known, is := errors.AsType[*driver.Error](err); is {
			problem, hint = oneLine(known.Err), known.Hint
		}
		r.add(Failure, "file-system", problem, "two could hold a lock", hint)
		return
	}
	var stat unix.Statfs_t
	if err := unix.Statfs(e.folder, &stat); err != nil {
		r.unseen("file-system", err, "the file system", "")
		return
	}
	switch uint32(stat.Type) {
	case tmpfs, ramfs:
		r.add(Warning, "file-system", "in memory", "when the machine restarts it is not known any more which slots have run", "--store sqlite:///PATH on a disk")
	case overlay:
		r.add(Note, "file-system", "the layers of a container, as it seems", "only processes of this container share the file, and it goes away with it", "a volume for the folder of the file")
	default:
		r.ok("file-system", "one that is not shared between machines")
	}
	free(r, stat.Bavail*uint64(stat.Bsize))
}

// free judges the free space of the disk, for users other than root.
func free(r *report, bytes uint64) {
	found := size(int64(bytes)) + " free"
	const why, fix = "on a full disk no lock is granted, extended or released", "free some space"
	switch {
	case bytes == 0:
		r.add(Failure, "disk", found, why, fix)
	case bytes < leastFree:
		r.add(Warning, "disk", found, why, fix)
	default:
		r.ok("disk", found)
	}
}

// parts are the files of the store that are there.
func (e *embedded) parts() []string {
	var there []string
	for _, end := range []string{"", "-wal", "-shm", "-wake"} {
		if _, err := os.Stat(e.path + end); err == nil {
			there = append(there, e.path+end)
		}
	}
	return there
}

// writable says whether this user may write what has to be written.
func (e *embedded) writable(r *report) {
	for _, path := range append(e.parts(), e.folder) {
		if err := unix.Faccessat(unix.AT_FDCWD, path, unix.R_OK|unix.W_OK, unix.AT_EACCESS); err != nil {
			r.add(Failure, "writable", path+": "+oneLine(err), "this user must be able to write the file, those beside it and the directory", e.giving())
			return
		}
	}
	r.ok("writable", "by this user")
}

// giving is how this user gets the file.
func (e *embedded) giving() string {
	if folder := filepath.Dir(e.path); e.folder != folder {
		return fmt.Sprintf("install -d -m 700 -o %d %s, as root", os.Geteuid(), folder)
	}
	return "run holdfast as the user who owns it, or choose another path by --store sqlite:///PATH"
}

// private says who else can read, write or replace the locks.
func (e *embedded) private(r *report) {
	var others []string
	for _, path := range e.parts() {
		unwanted := fs.FileMode(0o077)
		if strings.HasSuffix(path, "-shm") || strings.HasSuffix(path, "-wake") {
			unwanted = 0o022 // there is nothing to read
		}
		if state, err := os.Stat(path); err == nil && state.Mode()&unwanted != 0 {
			others = append(others, fmt.Sprintf("%s has mode %04o", path, state.Mode().Perm()))
		}
	}
	folder := filepath.Dir(e.path)
	if state, err := os.Stat(folder); err == nil && state.Mode()&0o022 != 0 && state.Mode()&fs.ModeSticky == 0 {
		others = append(others, fmt.Sprintf("%s has mode %04o", folder, state.Mode().Perm()))
	}
	switch {
	case len(others) > 0:
		r.add(Warning, "private", strings.Join(others, ", "), "whoever can read the file has the tokens, which are the right to release, and who can write or replace it has all locks",
			"chmod 600 "+e.path+"*; chmod 700 "+folder)
	case e.there:
		r.ok("private", "only its owner can read and write the file")
	}
}
