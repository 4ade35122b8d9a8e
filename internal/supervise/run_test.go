package supervise

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfastlock/holdfast"
)

// patience is how long a test waits for what must happen.
const patience = 20 * time.Second

// running is a job under a fake lease.
type running struct {
	t       *testing.T
	dir     string
	lease   *fakeLease
	signals chan os.Signal
	ended   chan Outcome
}

// runScript runs a shell script in the background and waits until it has made
// the file "ready" in its folder.
func runScript(t *testing.T, script string, changes ...func(*Job)) *running {
	t.Helper()
	r := &running{t, t.TempDir(), newLease(), make(chan os.Signal, 4), make(chan Outcome, 1)}
	command, err := Find([]string{"sh", "-c", "cd '" + r.dir + "'\n" + script})
	if err != nil {
		t.Fatal(err)
	}
	job := Job{Command: command, Env: os.Environ(), Signals: r.signals, Rules: Rules{Grace: 200 * time.Millisecond, Slack: slack}}
	for _, change := range changes {
		change(&job)
	}
	go func() {
		outcome, err := job.Run(r.lease)
		if err != nil {
			t.Error(err)
		}
		r.ended <- outcome
	}()
	r.until(func() bool { return r.read("ready") != "" })
	return r
}

func (r *running) read(name string) string {
	text, _ := os.ReadFile(filepath.Join(r.dir, name))
	return strings.TrimSpace(string(text))
}

func (r *running) until(condition func() bool) {
	r.t.Helper()
	for deadline := time.Now().Add(patience); !condition(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			r.t.Fatal("waited in vain")
		}
	}
}

// gone waits until the process whose number is in the file has ended.
func (r *running) gone(name string) {
	r.t.Helper()
	pid, err := strconv.Atoi(r.read(name))
	if err != nil {
		r.t.Fatal(err)
	}
	r.until(func() bool { return ended(pid) })
}

// ended says whether a process has ended; one that nobody has waited for has.
func ended(pid int) bool {
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return true
	}
	stat, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return bytes.Contains(stat, []byte(") Z "))
}

func run(t *testing.T, argv ...string) (Outcome, error) {
	t.Helper()
	command, err := Find(argv)
	if err != nil {
		t.Fatal(err)
	}
	return Job{Command: command, Env: os.Environ(), Rules: Rules{Grace: grace, Slack: slack}}.Run(newLease())
}

func TestTheExitCodeIsTheCommandsOwnOrThatOfItsSignal(t *testing.T) {
	for script, want := range map[string]int{
		"true": 0, "exit 7": 7, "exit 255": 255,
		"kill -TERM $$": 143, "kill -KILL $$": 137, "kill -INT $$": 130,
	} {
		outcome, err := run(t, "sh", "-c", script)
		if err != nil || outcome.Code != want || outcome.Lost {
			t.Errorf("%s: got %+v, %v; want code %d", script, outcome, err, want)
		}
	}
}

func TestATextWithoutInterpreterIsRunByTheShell(t *testing.T) {
	path := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(path, []byte("exit $(($1 + 1))\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	outcome, err := run(t, path, "41")
	if err != nil || outcome.Code != 42 {
		t.Errorf("got %+v, %v; want code 42", outcome, err)
	}
}

func TestACommandThatIsMissingOrNotExecutableIsFoundOutBeforehand(t *testing.T) {
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]int{
		"no-such-command":            CodeNotFound,
		filepath.Join(dir, "absent"): CodeNotFound,
		plain:                        CodeNotExecutable,
		dir:                          CodeNotExecutable,
	} {
		_, err := Find([]string{path})
		if err == nil || ExitCode(err) != want {
			t.Errorf("%s: got %v, want code %d", path, err, want)
		}
	}
}

func TestACommandWhoseInterpreterIsMissingIsNotStarted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(path, []byte("#!/no/such/interpreter\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := run(t, path); err == nil || ExitCode(err) != CodeNotFound {
		t.Errorf("got %v, want code %d", err, CodeNotFound)
	}
}

func TestASignalBeforeTheStartMeansThatNothingIsStarted(t *testing.T) {
	signals := make(chan os.Signal, 1)
	signals <- syscall.SIGTERM
	file := filepath.Join(t.TempDir(), "started")
	command, err := Find([]string{"touch", file})
	if err != nil {
		t.Fatal(err)
	}
	outcome, err := Job{Command: command, Signals: signals}.Run(newLease())
	if err != nil || outcome.Code != 143 {
		t.Errorf("got %+v, %v; want code 143", outcome, err)
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("the command was started")
	}
}

func TestSignalsReachEveryProcessOfTheGroup(t *testing.T) {
	r := runScript(t, `sleep 1000 & echo $! > worker; echo 1 > ready; wait`)
	r.signals <- syscall.SIGTERM
	if outcome := <-r.ended; outcome.Code != 143 || outcome.Lost {
		t.Errorf("got %+v, want code 143", outcome)
	}
	r.gone("worker")
}

func TestUserSignalsAreHandedOn(t *testing.T) {
	r := runScript(t, `trap 'exit 21' USR1; echo 1 > ready; while :; do sleep 0.05; done`)
	r.signals <- syscall.SIGUSR1
	if outcome := <-r.ended; outcome.Code != 21 {
		t.Errorf("got %+v, want code 21", outcome)
	}
}

func TestASecondTermKillsTheGroup(t *testing.T) {
	r := runScript(t, `trap 'echo 1 > termed' TERM; echo 1 > ready; while :; do sleep 0.05; done`)
	r.signals <- syscall.SIGTERM
	r.until(func() bool { return r.read("termed") != "" })
	r.signals <- syscall.SIGTERM
	if outcome := <-r.ended; outcome.Code != 137 || outcome.Lost {
		t.Errorf("got %+v, want code 137", outcome)
	}
}

func TestWhenTheLeaseIsLostTheWholeGroupIsStoppedEvenIfDeaf(t *testing.T) {
	r := runScript(t, `(trap '' TERM; while :; do sleep 0.05; done) & echo $! > worker; echo 1 > ready; wait`)
	r.lease.lose(&holdfast.LostError{Reason: holdfast.LostTaken})
	if outcome := <-r.ended; !outcome.Lost {
		t.Errorf("got %+v, want lost", outcome)
	}
	r.gone("worker")
}

func TestALossThatTheCommandOutranIsStillALoss(t *testing.T) {
	r := runScript(t, `trap 'exit 0' TERM; echo 1 > ready; while :; do sleep 0.05; done`)
	r.lease.lose(&holdfast.LostError{Reason: holdfast.LostGone})
	if outcome := <-r.ended; !outcome.Lost || outcome.Code != 0 {
		t.Errorf("got %+v, want lost with code 0", outcome)
	}
}

func TestWhatTheSystemRefusesIsNotTheFaultOfTheCommand(t *testing.T) {
	command, err := Find([]string{"true"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = Job{Command: command, Env: []string{"IMPOSSIBLE=\x00"}}.Run(newLease())
	if !errors.Is(err, ErrSystem) {
		t.Errorf("a supervisor that can't be started: got %v", err)
	}
	c := &conversation{lease: newLease(), job: Job{Command: command}}
	for number, want := range map[syscall.Errno]bool{
		syscall.EAGAIN: true, syscall.ENOMEM: true, syscall.EACCES: false, syscall.ENOENT: false,
	} {
		if _, err, _ := c.hear(report{Failed: number}, true); errors.Is(err, ErrSystem) != want {
			t.Errorf("%v: got %v", number, err)
		}
	}
}
