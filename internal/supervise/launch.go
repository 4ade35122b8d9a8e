package supervise

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// supervisor is the supervisor as holdfast sees it.
type supervisor struct {
	cmd     *exec.Cmd
	pipes   [2]*os.File // our ends: orders, reports
	orders  *json.Encoder
	reports <-chan report
	done    chan struct{} // closed by close
	reaped  chan struct{} // closed when the process has ended
}

// launch starts the supervisor, which waits for its first order.
func launch(j Job) (*supervisor, error) {
	program, err := ownProgram()
	if err != nil {
		return nil, err
	}
	theirOrders, orders, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer theirOrders.Close()
	reports, theirReports, err := os.Pipe()
	if err != nil {
		_ = orders.Close()
		return nil, err
	}
	defer theirReports.Close()
	s := &supervisor{
		pipes: [2]*os.File{orders, reports}, orders: json.NewEncoder(orders),
		done: make(chan struct{}), reaped: make(chan struct{}),
	}
	s.cmd = &exec.Cmd{
		Path: program,
		Args: append([]string{os.Args[0], argument, leave(theirOrders), leave(theirReports), j.Command.path}, j.Command.args...),
		Env:  j.Env, Stdin: j.Stdin, Stdout: j.Stdout, Stderr: j.Stderr,
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true},
	}
	if err := s.cmd.Start(); err != nil {
		s.closePipes()
		return nil, err
	}
	s.reports = receive[report](reports, s.done)
	go s.reap()
	return s, nil
}

// leave lets a process that we start inherit the file under the number it has
// here: the numbers that exec.Cmd would give it may be files of the command.
func leave(file *os.File) string {
	fd := file.Fd()
	// It fails only for a file that is not open.
	_, _ = unix.FcntlInt(fd, unix.F_SETFD, 0)
	return strconv.Itoa(int(fd))
}

// reap waits for the end of the supervisor; as the first process of a container
// we also wait for all whose parent has ended.
func (s *supervisor) reap() {
	defer close(s.reaped)
	if os.Getpid() != 1 {
		_ = s.cmd.Wait() // how it ended its reports have told
		return
	}
	for {
		pid, err := syscall.Wait4(-1, nil, 0, nil)
		if pid == s.cmd.Process.Pid || errors.Is(err, syscall.ECHILD) {
			return
		}
	}
}

// send sends an order. That the supervisor has died shows in its reports.
func (s *supervisor) send(o order) { _ = s.orders.Encode(o) }

// close waits for the end of the supervisor, which has reported all it has to.
func (s *supervisor) close() {
	close(s.done)
	s.closePipes()
	<-s.reaped
}

func (s *supervisor) closePipes() {
	for _, pipe := range s.pipes {
		_ = pipe.Close()
	}
}

// programByName returns the path of the running program by the name it was
// started under.
func programByName() (string, error) {
	if path, err := os.Executable(); err == nil {
		return path, nil
	}
	return exec.LookPath(os.Args[0])
}
