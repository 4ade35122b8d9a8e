package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// terminal is a pseudo-terminal with a shell at it.
type terminal struct {
	t      *testing.T
	master *os.File
	shell  *exec.Cmd
	mu     sync.Mutex
	seen   bytes.Buffer
	closed chan struct{}
}

// atTerminal runs a shell script as a login would: leader of a session with a
// terminal of its own.
func atTerminal(t *testing.T, script string) *terminal {
	t.Helper()
	master, slave := openTerminal(t)
	term := &terminal{t: t, master: master, closed: make(chan struct{})}
	term.shell = exec.Command("sh", "-c", script)
	term.shell.Env = append(os.Environ(), "HOLDFAST_STORE=sqlite://"+filepath.Join(t.TempDir(), "locks.db"))
	term.shell.Dir = t.TempDir()
	term.shell.Stdin, term.shell.Stdout, term.shell.Stderr = slave, slave, slave
	term.shell.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := term.shell.Start(); err != nil {
		t.Fatal(err)
	}
	slave.Close()
	go term.read()
	return term
}

func openTerminal(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no pseudo-terminals here: %v", err)
	}
	number, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	return master, slave
}

// read keeps what is written to the terminal, until nobody has it open.
func (term *terminal) read() {
	defer close(term.closed)
	buffer := make([]byte, 1<<10)
	for {
		n, err := term.master.Read(buffer)
		term.mu.Lock()
		term.seen.Write(buffer[:n])
		term.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (term *terminal) text() string {
	term.mu.Lock()
	defer term.mu.Unlock()
	return term.seen.String()
}

// expect waits until the text stands on the terminal.
func (term *terminal) expect(text string) {
	term.t.Helper()
	if err := until(func() bool { return strings.Contains(term.text(), text) }); err != nil {
		term.t.Fatalf("%q was not written: %v; seen: %q", text, err, term.text())
	}
}

// expectTwice waits until a line stands on the terminal twice, as its echo and
// as the output of cat. Others may write between the two.
func (term *terminal) expectTwice(line string) {
	term.t.Helper()
	if err := until(func() bool { return strings.Count(term.text(), line+"\r\n") == 2 }); err != nil {
		term.t.Fatalf("%q was not written twice: %v; seen: %q", line, err, term.text())
	}
}

func (term *terminal) press(keys string) {
	term.t.Helper()
	if _, err := term.master.WriteString(keys); err != nil {
		term.t.Fatal(err)
	}
}

// end waits for the end of the shell and its terminal.
func (term *terminal) end() {
	term.t.Helper()
	if err := term.shell.Wait(); err != nil {
		term.t.Errorf("the shell ended with %v; seen: %q", err, term.text())
	}
	<-term.closed
	term.master.Close()
}

func TestTheCommandCanReadTheTerminalAndTheShellHasItBackAfterwards(t *testing.T) {
	term := atTerminal(t, `holdfast run job -- sh -c 'echo "ready"; read x; echo "got <$x>"'; read y; echo "then <$y>"`)
	term.expect("ready")
	term.press("one\n")
	term.expect("got <one>")
	term.press("two\n")
	term.expect("then <two>")
	term.end()
}

func TestCtrlCReachesTheCommandOnce(t *testing.T) {
	term := atTerminal(t, `holdfast run job -- sh -c 'trap "echo interrupted" INT; echo ready; read x; read x; exit 4'; echo "code $?"`)
	term.expect("ready")
	term.press("\x03")
	term.expect("interrupted")
	term.press("\nend\n\n")
	term.expect("code 4")
	term.end()
	if n := strings.Count(term.text(), "interrupted"); n != 1 {
		t.Errorf("the command was interrupted %d times, want once", n)
	}
}

func TestCtrlCEndsTheCommandAndTheRun(t *testing.T) {
	// The trap keeps the shell itself alive if the key should reach it. The
	// command is no shell: one that is just about to start a process may
	// overlook the signal.
	term := atTerminal(t, `trap : INT; holdfast run job -- cat; echo "code $?"`)
	term.press("ready\n")
	term.expectTwice("ready")
	term.press("\x03")
	term.expect("code 130")
	term.end()
}

func TestCtrlZStopsTheWholeJobAndItGoesOnInTheForeground(t *testing.T) {
	term := atTerminal(t, `set -m; holdfast run job -- cat; echo "stopped $?"; fg; echo "code $?"`)
	term.press("one\n")
	term.expectTwice("one")
	term.press("\x1a")
	term.expect("stopped 148")
	term.press("two\n")
	term.expectTwice("two")
	term.press("\x04")
	term.expect("code 0")
	term.end()
}

func TestCtrlCInAPipelineReachesTheCommandOnce(t *testing.T) {
	term := atTerminal(t, `holdfast run job -- sh -c 'trap "echo interrupted" INT; echo ready; while ! test -e finish; do sleep 0.05; done; exit 4' | (trap "" INT; cat)`)
	term.expect("ready")
	term.press("\x03")
	term.expect("interrupted")
	if err := os.WriteFile(filepath.Join(term.shell.Dir, "finish"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	term.shell.Wait() // the shell itself is interrupted, too
	<-term.closed
	term.master.Close()
	if n := strings.Count(term.text(), "interrupted"); n != 1 {
		t.Errorf("the command was interrupted %d times, want once", n)
	}
}

func TestACommandStoppedBeyondItsLeaseDoesNotGoOn(t *testing.T) {
	term := atTerminal(t, `set -m; holdfast run --ttl 1 job -- cat; echo "stopped $?"; while holdfast show job >/dev/null; do sleep 0.05; done; fg; echo "code $?"`)
	term.press("one\n")
	term.expectTwice("one")
	term.press("\x1a")
	term.expect("stopped 148")
	term.expect("code 79")
	term.end()
}

func TestALossDuringAStopIsFoundBeforeTheCommandGoesOn(t *testing.T) {
	term := atTerminal(t, `set -m; holdfast run -k 500ms job -- sh -c 'echo ready; trap "" TERM; read x; echo "got <$x>"'; echo "stopped $?"; holdfast release job --force --yes --reason test; fg; echo "code $?"`)
	term.expect("ready")
	term.press("\x1a")
	term.expect("stopped 148")
	term.expect("code 79")
	term.end()
}

func TestCtrlZWithoutAShellToResumeItIsNoMoreThanAPause(t *testing.T) {
	term := atTerminal(t, `exec holdfast run job -- cat`)
	term.press("one\n")
	term.expectTwice("one")
	term.press("\x1a")
	term.press("two\n")
	term.expectTwice("two")
	term.press("\x04")
	term.end()
}

func TestAJobInTheBackgroundStopsWhenItReadsAndGoesOnInTheForeground(t *testing.T) {
	term := atTerminal(t, `set -m; holdfast run job -- cat & until grep -q ") T " /proc/$!/stat; do sleep 0.05; done; echo "asleep"; fg; echo "code $?"`)
	term.expect("asleep")
	term.press("one\n")
	term.expectTwice("one")
	term.press("\x04")
	term.expect("code 0")
	term.end()
}

func TestCtrlCEndsTheWaitForOrphans(t *testing.T) {
	term := atTerminal(t, `trap : INT; holdfast run --orphans wait job -- sh -c 'setsid sh -c "touch up; while kill -0 \$PPID 2>/dev/null; do :; done; echo waiting; exec sleep 1000" & until test -e up; do :; done; exit 4'; echo "code $?"`)
	term.expect("waiting")
	// The terminal may be given back just after that.
	if err := until(func() bool { term.press("\x03"); return strings.Contains(term.text(), "code 4") }); err != nil {
		t.Errorf("%v; seen: %q", err, term.text())
	}
	term.end()
}

func TestTheTerminalIsGivenBackWhenTheCommandCanNotBeStarted(t *testing.T) {
	script := filepath.Join(t.TempDir(), "orphan")
	if err := os.WriteFile(script, []byte("#!/no/such/interpreter\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	term := atTerminal(t, `holdfast run job -- `+script+`; echo "code $?"; read x; echo "got <$x>"`)
	term.expect("code 127")
	term.press("one\n")
	term.expect("got <one>")
	term.end()
}

func TestReleaseByForceAsksForTheNameAtATerminal(t *testing.T) {
	term := atTerminal(t, `holdfast run job -- sh -c 'holdfast release job --force --reason test; echo "first $?"; holdfast release job --force --reason test; echo "second $?"'; echo "code $?"`)
	term.expect("Type the name again")
	term.press("jab\n")
	term.expect("first 1")
	term.press("job\n")
	term.expect("second 0")
	term.expect("code 79")
	term.end()
}
