// Package filefence lets the files of one machine refuse the writes of stale lock
// holders.
//
//	err := filefence.WriteFile(ctx, "/srv/report.csv", owner, lease.Fence(), body, 0o644)
//	// *fence.StaleError: a later holder was here
//
// WriteFile checks the fence and replaces the file in one step. For several
// files, or for anything else on the machine, Dir is a fence.Guard: a folder that
// has a mark, the largest fence seen, for each resource. All who write must go
// this way, and on the same machine: the locks are those of flock(2), which end
// with the process that has them, and file systems that are shared between
// machines may not know them.
//
// A mark is on the disk before the change begins. After a crash, also of the
// machine, the file is the old one or the new one, and what was refused before
// is still refused. Marks stay; whoever deletes one lets every fence in again.
package filefence

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"

	"github.com/holdfastlock/holdfast/fence"
)

// Dir is a fence.Guard that remembers in a folder, for the processes of one
// machine. Its methods may be used by many goroutines and processes at once.
type Dir struct{ path string }

var _ fence.Guard = (*Dir)(nil)

// Open returns the Dir of that path, and makes the folder if need be. There is
// nothing to close.
func Open(path string) (*Dir, error) {
	const mode = 0o700
	if err := os.MkdirAll(path, mode); err != nil {
		return nil, err
	}
	return &Dir{path}, nil
}

// Touch implements fence.Guard.
func (d *Dir) Touch(ctx context.Context, resource, owner string, shown int64) error {
	return d.Do(ctx, resource, owner, shown, func(context.Context) error { return nil })
}

// Do implements fence.Guard.
func (d *Dir) Do(ctx context.Context, resource, owner string, shown int64, change func(context.Context) error) error {
	held, err := d.Hold(ctx, resource, owner, shown)
	if err != nil {
		return err
	}
	defer held.Release()
	return change(ctx)
}

// Hold shows a fence to the resource as Do does, and keeps the resource closed
// for others until it is released.
func (d *Dir) Hold(ctx context.Context, resource, owner string, shown int64) (*Held, error) {
	// A name of a resource may be too long for one of a file, or have a slash.
	sum := sha256.Sum256([]byte(resource))
	return sidecar(filepath.Join(d.path, hex.EncodeToString(sum[:]))).hold(ctx, resource, owner, shown)
}

// TouchFile shows a fence to the file that WriteFile guards. A holder does this
// before it reads what it is going to change. Owner says who holds the lease, in
// a way that no two leases share, but not by the lease's token, which is a
// secret.
//
// The error is a *fence.StaleError, a *fence.ConflictError or fence.ErrNoFence,
// whose resource is the path; the context's, if it ends the wait for another
// writer; or that of the file system. Beside the file there are then path.fence,
// with the mark, and path.fence-lock. Name it by one path only.
func TouchFile(ctx context.Context, path, owner string, shown int64) error {
	held, err := sidecar(path).hold(ctx, path, owner, shown)
	if err != nil {
		return err
	}
	held.Release()
	return nil
}

// WriteFile shows a fence as TouchFile does and, in one step, replaces the
// content of the file, or makes it. The file then has that mode, before umask.
// Who reads it sees the old content or the new one, and never a part.
func WriteFile(ctx context.Context, path, owner string, shown int64, content []byte, mode os.FileMode) error {
	held, err := sidecar(path).hold(ctx, path, owner, shown)
	if err != nil {
		return err
	}
	defer held.Release()
	return replace(path, content, mode)
}
