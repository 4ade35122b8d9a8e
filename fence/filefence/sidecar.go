package filefence

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfastlock/holdfast/fence"
)

// sidecar is where the mark of the resource of this path is kept: path.fence,
// which is replaced, and path.fence-lock, which is locked and therefore never is.
type sidecar string

// sidecarMode keeps out those who can't write the resource either: to read the
// file of the lock is enough to lock it.
const sidecarMode = 0o660

func (s sidecar) mark() string { return string(s) + ".fence" }
func (s sidecar) lock() string { return string(s) + ".fence-lock" }

// Held is a resource that is closed for others. It is for one goroutine at a
// time.
type Held struct{ lock *os.File }

// Release opens the resource for others. It may be called more than once.
func (h *Held) Release() { _ = h.lock.Close() } // an error means that it is closed

// File returns the lock. A process that inherits it keeps the resource closed
// until it ends, also when this one is killed.
func (h *Held) File() *os.File { return h.lock }

// record is a mark on the disk. The resource is for people.
type record struct {
	Resource string `json:"resource"`
	Fence    int64  `json:"fence"`
	Owner    string `json:"owner"`
}

// hold locks the resource, compares, and remembers.
func (s sidecar) hold(ctx context.Context, resource, owner string, shown int64) (*Held, error) {
	if shown <= 0 {
		return nil, fence.ErrNoFence
	}
	lock, err := os.OpenFile(s.lock(), os.O_RDWR|os.O_CREATE, sidecarMode)
	if err != nil {
		return nil, err
	}
	if err = wait(ctx, lock); err == nil {
		err = s.show(resource, owner, shown)
	}
	if err != nil {
		_ = lock.Close() // nothing was written to it
		return nil, err
	}
	return &Held{lock}, nil
}

// wait locks the file. It asks again and again, because a goroutine that waits
// in the kernel can't be called back.
func wait(ctx context.Context, lock *os.File) error {
	const longest = 50 * time.Millisecond
	for pause := time.Millisecond; ; pause = min(2*pause, longest) {
		err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}

// show compares with the mark and puts the new one on the disk.
func (s sidecar) show(resource, owner string, shown int64) error {
	mark, err := s.read()
	if err != nil {
		return err
	}
	if err := mark.Check(resource, owner, shown); err != nil {
		return err
	}
	next := fence.Mark{Fence: shown, Owner: owner}
	if next == mark {
		return syncFolder(s.mark()) // whoever put it there may not have come to that
	}
	text, err := json.Marshal(record{resource, shown, owner})
	if err != nil {
		return err
	}
	return replace(s.mark(), append(text, '\n'), sidecarMode)
}

// read returns the mark, which is zero if there is none yet. One that can't be
// read lets nobody in.
func (s sidecar) read() (fence.Mark, error) {
	text, err := os.ReadFile(s.mark())
	if errors.Is(err, fs.ErrNotExist) {
		return fence.Mark{}, nil
	}
	var last record
	if err == nil {
		err = json.Unmarshal(text, &last)
	}
	if err == nil && last.Fence <= 0 {
		err = errors.New("it has no fence")
	}
	if err != nil {
		return fence.Mark{}, fmt.Errorf("the mark %s can't be read: %w", s.mark(), err)
	}
	return fence.Mark{Fence: last.Fence, Owner: last.Owner}, nil
}

// replace puts another content in the place of a file, and both the content and
// the name on the disk. The caller has the lock, so the draft is nobody else's.
func replace(path string, content []byte, mode os.FileMode) error {
	draft := path + ".fence-draft"
	if err := os.Remove(draft); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err // one that a crash has left, perhaps with another mode
	}
	if err := write(draft, content, mode); err != nil {
		return err
	}
	if err := os.Rename(draft, path); err != nil {
		return err
	}
	return syncFolder(path)
}

func write(path string, content []byte, mode os.FileMode) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	defer file.Close()
	if _, err := file.Write(content); err != nil {
		return err
	}
	if err := file.Sync(); err != nil {
		return err
	}
	return file.Close()
}

// syncFolder puts the name of the file on the disk.
func syncFolder(path string) error {
	folder, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer folder.Close()
	return folder.Sync()
}
