package sqlitestore

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// ranges is the side file on which processes lock one byte for each name. The
// locks are open file description locks: they belong to this description of the
// file, not to a thread, and the kernel drops them when the process ends,
// however it ends.
type ranges struct{ fd int }

func openRanges(path string) (ranges, error) {
	const flags = unix.O_RDWR | unix.O_CREAT | unix.O_CLOEXEC
	fd, err := unix.Open(path, flags, fileMode)
	if err != nil {
		return ranges{}, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return ranges{fd}, nil
}

// tryLock takes the range and says whether no other description has it.
func (r ranges) tryLock(offset int64) bool {
	return r.fcntl(unix.F_OFD_SETLK, unix.F_WRLCK, offset) == nil
}

// lock waits for the range, in a system call that nothing interrupts.
func (r ranges) lock(offset int64) error {
	return r.fcntl(unix.F_OFD_SETLKW, unix.F_WRLCK, offset)
}

func (r ranges) unlock(offset int64) { _ = r.fcntl(unix.F_OFD_SETLK, unix.F_UNLCK, offset) }

func (r ranges) close() { _ = unix.Close(r.fd) }

func (r ranges) fcntl(cmd int, kind int16, offset int64) error {
	lock := unix.Flock_t{Type: kind, Whence: io.SeekStart, Start: offset, Len: 1}
	for {
		err := unix.FcntlFlock(uintptr(r.fd), cmd, &lock)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
