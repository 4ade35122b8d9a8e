package sqlitestore

import (
	"fmt"

	"github.com/holdfastlock/holdfast/driver"
	"golang.org/x/sys/unix"
)

// remote are the file systems, by their magic number (statfs(2)), on which
// processes of several machines, or of several kernels, can meet.
var remote = map[uint32]string{
	0x00006969: "NFS",
	0x0000517b: "SMB",
	0xfe534d42: "SMB",
	0xff534d42: "CIFS",
	0x01021997: "9p",
	0x65735546: "FUSE",
	0x5346414f: "AFS",
	0x6b414653: "AFS",
	0x00c36400: "Ceph",
	0x73757245: "Coda",
	0x01161970: "GFS2",
	0x7461636f: "OCFS2",
	0x0bd00bd0: "Lustre",
	0x47504653: "GPFS",
	0x786f4256: "VirtualBox shared folder",
	0xbacbacbc: "VMware shared folder",
}

// checkFileSystem refuses a directory that several machines might share.
func checkFileSystem(dir string) error {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return openError(dir, err)
	}
	return judgeFileSystem(dir, uint32(fs.Type))
}

func judgeFileSystem(dir string, magic uint32) error {
	name, found := remote[magic]
	if !found {
		return nil
	}
	return &driver.Error{
		Kind: driver.ErrMisconfigured,
		Err:  fmt.Errorf("%s is on a file system of type %s, where SQLite's shared memory and locks don't reach every process", dir, name),
		Hint: "put the file on a local disk, or use Redis or Postgres for locks between machines",
	}
}
