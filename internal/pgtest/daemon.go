package pgtest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/holdfastlock/holdfast/internal/redistest"
)

const (
	// readyWithin bounds the start of a server on a busy machine.
	readyWithin = 60 * time.Second
	// pollEvery is how often a condition of a server is looked at.
	pollEvery = 10 * time.Millisecond
	// startAttempts is how often a start is tried: another process may take the
	// port, and what a killed server has left may take a moment to go.
	startAttempts = 10
	startPause    = 100 * time.Millisecond
)

// daemon is a server program in a folder of its own. Its methods are for one
// goroutine at a time.
type daemon struct {
	binary  string
	dir     string
	port    int
	process *os.Process
	exited  chan struct{}
}

// newFolder makes a folder that the unprivileged user can use, which one in
// testing's own folders could not.
func newFolder() (string, error) {
	dir, err := os.MkdirTemp("", "holdfast-pg")
	if err != nil {
		return "", err
	}
	account, err := unprivileged()
	if err == nil && account != nil {
		err = os.Chown(dir, int(account.Uid), int(account.Gid))
	}
	if err != nil {
		os.RemoveAll(dir)
		return "", err
	}
	return dir, nil
}

// writeFile writes a file in a folder of newFolder, which keeps all users out
// but the one who must be able to read it.
func writeFile(path, text string) error { return os.WriteFile(path, []byte(text), 0o644) }

// unprivileged returns the user that servers run as, nil for the present one:
// Postgres and PgBouncer refuse to be root.
func unprivileged() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		account, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, _ := strconv.ParseUint(account.Uid, 10, 32)
		gid, _ := strconv.ParseUint(account.Gid, 10, 32)
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
	}
	return nil, fmt.Errorf("needs a user postgres or nobody, to run a server that refuses to be root")
}

// command prepares a program to run in dir as the unprivileged user, and to end
// with this process where the system can do that.
func command(dir, binary string, args ...string) (*exec.Cmd, error) {
	account, err := unprivileged()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(binary, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "LC_ALL=C", "TZ=UTC")
	cmd.SysProcAttr = redistest.OwnGroup()
	if account != nil {
		if cmd.SysProcAttr == nil {
			cmd.SysProcAttr = new(syscall.SysProcAttr)
		}
		cmd.SysProcAttr.Credential = account
	}
	return cmd, nil
}

// start runs the program, on another port after each failed try if anyPort,
// until ready says so.
func (d *daemon) start(anyPort bool, args func() []string, ready func() bool) error {
	for range startAttempts {
		if anyPort {
			port, err := redistest.FreePort()
			if err != nil {
				return err
			}
			d.port = port
		}
		if err := d.launch(args()); err != nil {
			return err
		}
		isReady, ended := d.waitReady(ready)
		if isReady {
			return nil
		}
		d.kill()
		if !ended {
			return fmt.Errorf("%s does not answer; its last words:\n%s", d.binary, d.log())
		}
		time.Sleep(startPause)
	}
	return fmt.Errorf("%s did not start; its last words:\n%s", d.binary, d.log())
}

func (d *daemon) launch(args []string) error {
	cmd, err := command(d.dir, d.binary, args...)
	if err != nil {
		return err
	}
	log, err := os.OpenFile(d.logPath(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return err
	}
	exited := make(chan struct{})
	d.process, d.exited = cmd.Process, exited
	go func() {
		defer close(exited)
		cmd.Wait()
	}()
	return nil
}

// waitReady says whether the program has become ready, and if not, whether it has
// ended.
func (d *daemon) waitReady(ready func() bool) (isReady, ended bool) {
	for deadline := time.Now().Add(readyWithin); time.Now().Before(deadline); {
		if ready() {
			return true, false
		}
		select {
		case <-d.exited:
			return false, true
		case <-time.After(pollEvery):
		}
	}
	return false, false
}

func (d *daemon) logPath() string { return filepath.Join(d.dir, "server.log") }

func (d *daemon) log() string {
	text, _ := os.ReadFile(d.logPath())
	return string(bytes.TrimSpace(text))
}

// family is the program and its children, which Postgres puts in groups of
// their own. They are found on Linux only; elsewhere they end by themselves
// soon after their parent.
func (d *daemon) family() []int {
	pid := d.process.Pid
	family := []int{pid}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		stat, _ := os.ReadFile(path)
		// pid (name) state parent …, and the name may have any characters
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		if len(fields) < 2 || string(fields[1]) != strconv.Itoa(pid) {
			continue
		}
		if child, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil {
			family = append(family, child)
		}
	}
	return family
}

// signal stops the program first, so that it gets no more children meanwhile.
func (d *daemon) signal(signal syscall.Signal) {
	if d.process == nil {
		return
	}
	d.process.Signal(syscall.SIGSTOP)
	for _, pid := range d.family() {
		syscall.Kill(pid, signal)
	}
}

func (d *daemon) kill() {
	d.signal(syscall.SIGKILL)
	d.wait()
}

// end asks the program to end, and waits.
func (d *daemon) end(how syscall.Signal) {
	if d.process == nil {
		return
	}
	d.signal(syscall.SIGCONT)
	d.process.Signal(how)
	d.wait()
}

// Remove kills it and deletes its folder, with what its children may still be
// writing there.
func (d *daemon) Remove() {
	d.kill()
	for range startAttempts {
		if os.RemoveAll(d.dir) == nil {
			return
		}
		time.Sleep(pollEvery)
	}
}

func (d *daemon) wait() {
	if d.process != nil {
		<-d.exited
		d.process = nil
	}
}
