package supervise

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"
	"time"
)

// argument makes a program the supervisor. It is followed by the numbers of the
// files for orders and reports, the path of the command, and its arguments.
const argument = "--internal-supervisor"

// Asked says whether the program was started to be a supervisor, by its
// arguments with its name first.
func Asked(args []string) bool { return len(args) > 1 && args[1] == argument }

// Main is the supervisor: what the program does instead of anything else when
// Asked. It returns the exit code, which holdfast does not look at.
func Main(args []string) int {
	const fewest = 6
	if len(args) < fewest {
		fmt.Fprintln(os.Stderr, "holdfast: "+argument+" is for holdfast itself")
		return CodeNotExecutable
	}
	runtime.LockOSThread() // of this thread the command is a child
	beDeaf()
	orders := receive[order](inherited(args[2]), nil)
	first, ok := <-orders
	if !ok || first.Start == nil {
		return 0 // holdfast has died already
	}
	reports := json.NewEncoder(inherited(args[3]))
	// A report that can't be sent has nobody to read it.
	send := func(r report) { _ = reports.Encode(r) }
	superviseCommand(args[4], args[5:], first, orders, send)
	return 0
}

func superviseCommand(path string, args []string, first order, orders <-chan order, send func(report)) {
	now := func() time.Time { return sharedNow().time() }
	p := plan{Rules: first.Start.Rules}
	if p.Limit > 0 {
		p.limit = now().Add(p.Limit)
	}
	if act, _ := p.step(now(), first.Deadline.time(), first.Lease); act != nothing {
		send(report{Ended: &Outcome{Code: SignalCode(syscall.SIGTERM), Lost: true, NotStarted: true}})
		return
	}
	adopting := adopt()
	group, err := startChild(path, args, first.Start.Foreground)
	if err != nil {
		number := syscall.EINVAL
		errors.As(err, &number)
		send(report{Failed: number})
		return
	}
	send(report{Group: int(group)})
	changes := make(chan change)
	go group.reap(adopting, changes)
	w := &watch{
		family: group, plan: p, now: now, deadline: first.Deadline.time(),
		orders: orders, changes: changes,
		tell: send,
	}
	outcome := w.run()
	send(report{Ended: &outcome})
}

// inherited returns a file that holdfast has left open for us, and keeps it
// from the command.
func inherited(number string) *os.File {
	fd, err := strconv.Atoi(number)
	if err != nil {
		fd = -1 // reading it fails, which is the end
	}
	syscall.CloseOnExec(fd)
	return os.NewFile(uintptr(fd), "pipe")
}

// beDeaf makes us survive what terminals and people send: holdfast hears it and
// tells us. The signals are caught and not ignored, since the command would
// inherit that; those that we were started to ignore stay ignored for it.
func beDeaf() {
	nobody := make(chan os.Signal, 1)
	for _, sig := range []os.Signal{
		syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2,
		syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU, syscall.SIGALRM,
	} {
		if !signal.Ignored(sig) {
			signal.Notify(nobody, sig)
		}
	}
}
