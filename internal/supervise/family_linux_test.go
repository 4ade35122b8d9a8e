package supervise

import (
	"os"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/holdfastlock/holdfast"
)

// strayScript starts a process that leaves the group, and one that nobody below
// the command is the parent of any more.
const strayScript = `
setsid sh -c 'trap "" TERM; echo $$ > left; while :; do sleep 0.05; done' &
(setsid sh -c 'echo $$ > orphan; exec sleep 1000' &)
until test -s left && test -s orphan; do sleep 0.01; done
echo $$ > leader
echo 1 > ready
`

func TestProcessesThatLeftTheGroupAreStoppedToo(t *testing.T) {
	r := runScript(t, strayScript+"wait")
	r.lease.lose(&holdfast.LostError{Reason: holdfast.LostTaken})
	if outcome := <-r.ended; !outcome.Lost || outcome.Left {
		t.Errorf("got %+v, want lost and none left", outcome)
	}
	r.gone("left")
	r.gone("orphan")
}

func TestOrphansAreReleasedKilledOrWaitedFor(t *testing.T) {
	t.Run("release", func(t *testing.T) {
		r := runScript(t, strayScript)
		if outcome := <-r.ended; !outcome.Left || outcome.Lost || outcome.Code != 0 {
			t.Errorf("got %+v, want some left", outcome)
		}
		for _, name := range []string{"left", "orphan"} {
			pid, _ := strconv.Atoi(r.read(name))
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
	t.Run("kill", func(t *testing.T) {
		r := runScript(t, strayScript, func(j *Job) { j.Orphans = OrphansKill })
		if outcome := <-r.ended; outcome.Left || outcome.Lost || outcome.Code != 0 {
			t.Errorf("got %+v, want none left", outcome)
		}
		r.gone("left")
		r.gone("orphan")
	})
	t.Run("wait", func(t *testing.T) {
		r := runScript(t, `(setsid sh -c 'sleep 0.3; echo 1 > late' &); echo 1 > ready; exit 4`, func(j *Job) { j.Orphans = OrphansWait })
		if outcome := <-r.ended; outcome.Left || outcome.Code != 4 || r.read("late") == "" {
			t.Errorf("got %+v, want code 4 and none left", outcome)
		}
	})
}

func TestSignalsReachWhatOutlivesTheCommandWhileItIsWaitedFor(t *testing.T) {
	r := runScript(t, strayScript+`until test -s go; do sleep 0.01; done; exit 4`, func(j *Job) { j.Orphans = OrphansWait })
	leader, err := strconv.Atoi(r.read("leader"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(r.dir+"/go", []byte("1"), 0o600); err != nil {
		t.Fatal(err)
	}
	r.until(func() bool { return ended(leader) })
	r.signals <- syscall.SIGTERM
	r.gone("orphan")
	r.signals <- syscall.SIGTERM // the other is deaf to TERM
	if outcome := <-r.ended; outcome.Left || outcome.Code != 4 {
		t.Errorf("got %+v, want code 4 and none left", outcome)
	}
}

func TestTheCommandDiesWithItsSupervisor(t *testing.T) {
	r := runScript(t, `echo $PPID > supervisor; echo $$ > command; sleep 1000 & echo $! > worker; echo 1 > ready; wait`)
	supervisor, err := strconv.Atoi(r.read("supervisor"))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(supervisor, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if outcome := <-r.ended; !outcome.Unwatched || outcome.Code != 137 {
		t.Errorf("got %+v, want unwatched and code 137", outcome)
	}
	r.gone("command")
	r.gone("worker")
}

func TestAFrozenSupervisorIsKilledWhenTheLeaseIsLost(t *testing.T) {
	r := runScript(t, `echo $PPID > supervisor; echo $$ > command; echo 1 > ready; exec sleep 1000`)
	supervisor, err := strconv.Atoi(r.read("supervisor"))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(supervisor, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	r.lease.lose(&holdfast.LostError{Reason: holdfast.LostExpired})
	r.gone("command")
	if outcome := <-r.ended; !outcome.Unwatched || !outcome.Lost {
		t.Errorf("got %+v, want unwatched and lost", outcome)
	}
}

func TestTheSupervisorIsDeafToWhatPeopleAndTerminalsSend(t *testing.T) {
	r := runScript(t, `echo $PPID > supervisor; echo 1 > ready; until test -s finish; do sleep 0.01; done; exit 6`)
	supervisor, err := strconv.Atoi(r.read("supervisor"))
	if err != nil {
		t.Fatal(err)
	}
	for _, sig := range []syscall.Signal{
		syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2,
		syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU, syscall.SIGALRM,
	} {
		if err := syscall.Kill(supervisor, sig); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(r.dir+"/finish", []byte("1"), 0o600); err != nil {
		t.Fatal(err)
	}
	if outcome := <-r.ended; outcome.Code != 6 {
		t.Errorf("got %+v, want code 6", outcome)
	}
}

func TestTheCommandIsNotStartedUnderALeaseThatIsAboutToEnd(t *testing.T) {
	command, err := Find([]string{"touch", t.TempDir() + "/started"})
	if err != nil {
		t.Fatal(err)
	}
	lease := newLease()
	lease.deadline = time.Now().Add(grace)
	outcome, err := Job{Command: command, Env: os.Environ(), Rules: rules}.Run(lease)
	if err != nil || !outcome.Lost || !outcome.NotStarted || exists(command.args[1]) {
		t.Errorf("got %+v, %v; want lost and not started", outcome, err)
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
