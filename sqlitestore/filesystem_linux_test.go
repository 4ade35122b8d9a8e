package sqlitestore

import (
	"errors"
	"strings"
	"testing"

	"github.com/holdfastlock/holdfast/driver"
	"golang.org/x/sys/unix"
)

func TestFileSystemsOfSeveralMachinesAreRefusedByName(t *testing.T) {
	for magic, name := range map[uint32]string{
		unix.NFS_SUPER_MAGIC:  "NFS",
		unix.CIFS_SUPER_MAGIC: "CIFS",
		unix.SMB_SUPER_MAGIC:  "SMB",
		unix.SMB2_SUPER_MAGIC: "SMB",
		unix.V9FS_MAGIC:       "9p",
		unix.FUSE_SUPER_MAGIC: "FUSE",
		unix.CEPH_SUPER_MAGIC: "Ceph",
		unix.CODA_SUPER_MAGIC: "Coda",
	} {
		err := judgeFileSystem("/srv/share", magic)
		if !errors.Is(err, driver.ErrMisconfigured) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, magic := range []uint32{unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.OVERLAYFS_SUPER_MAGIC, unix.TMPFS_MAGIC} {
		if err := judgeFileSystem("/var/lib", magic); err != nil {
			t.Error(err)
		}
	}
}
