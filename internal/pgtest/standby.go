package pgtest

import (
	"fmt"
	"net"
	"path/filepath"
	"slices"
)

// LaunchStandby copies a running server, which takes seconds, and runs the copy as
// its standby on a free port. It follows whatever is found at the address,
// host:port, which may be a proxy before the server. The caller ends it by Remove.
// The server must have no password.
func LaunchStandby(primary *Process, address string) (*Process, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	dir, err := newFolder()
	if err != nil {
		return nil, err
	}
	options := primary.options
	options.Settings = append(slices.Clone(options.Settings),
		fmt.Sprintf("primary_conninfo=host=%s port=%s user=%s sslmode=disable", host, port, User),
		"wal_retrieve_retry_interval=50ms")
	p := &Process{daemon: daemon{binary: primary.binary, dir: dir}, options: options, bin: primary.bin}
	if err = p.copyOf(primary); err == nil {
		err = p.start(true, p.arguments, p.ready)
	}
	if err != nil {
		p.Remove()
		return nil, err
	}
	return p, nil
}

// copyOf makes the cluster a copy of the primary's, and a standby's.
func (p *Process) copyOf(primary *Process) error {
	cmd, err := command(p.dir, filepath.Join(p.bin, "pg_basebackup"), "-d", primary.URL(User), "-D", p.DataDir(),
		"--checkpoint=fast", "--write-recovery-conf", "--no-sync")
	if err != nil {
		return err
	}
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("pg_basebackup: %w\n%s", err, output)
	}
	return nil
}

// Promote makes a standby a primary, and returns when it is one.
func (p *Process) Promote() error {
	done, err := p.Value(User, "SELECT pg_promote()::text")
	if err == nil && done != "true" {
		err = fmt.Errorf("the standby was not promoted:\n%s", p.log())
	}
	return err
}

// Follow restarts the pooler before another server.
func (p *Pooler) Follow(server *Process) error {
	p.server = server
	return p.Restart()
}
