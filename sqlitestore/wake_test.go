package sqlitestore

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"

	"github.com/holdfastlock/holdfast/driver"
)

// distant is a TTL that no test lives to see the end of.
const distant = time.Hour

// holdUntilKilled is the role of a process that holds a name until a line comes,
// then releases it, and waits to be killed.
func holdUntilKilled(args []string) error {
	path, name := args[0], args[1]
	ttl, err := time.ParseDuration(args[2])
	if err != nil {
		return err
	}
	ctx := context.Background()
	s, err := Open(ctx, path)
	if err != nil {
		return err
	}
	req := request(name, ttl)
	result, err := s.Acquire(ctx, req)
	if err != nil || !result.Granted {
		return fmt.Errorf("%+v, %w", result, err)
	}
	fmt.Println("held")
	fmt.Scanln()
	if _, err := s.Release(ctx, driver.ReleaseRequest{Name: name, Token: req.Token}); err != nil {
		return err
	}
	select {}
}

// holder starts a process that holds the name, and returns how to make it
// release the name.
func holder(t *testing.T, path, name string, ttl time.Duration) (cmd *exec.Cmd, release func()) {
	t.Helper()
	cmd = exec.Command(os.Args[0], path, name, ttl.String())
	cmd.Env = append(os.Environ(), roleVariable+"=hold")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	if _, err := io.ReadFull(out, make([]byte, len("held\n"))); err != nil {
		t.Fatal("the holder did not start")
	}
	return cmd, func() { io.WriteString(in, "\n") }
}

// asleep subscribes to the held name, and returns when its goroutine waits in
// the kernel.
func asleep(t *testing.T, s *Store, name string) <-chan struct{} {
	t.Helper()
	wake, stop := s.Subscribe(name)
	t.Cleanup(stop)
	<-wake // active
	if tryAcquire(t, s, request(name, distant)).Granted {
		t.Fatal("not held")
	}
	eventually(t, "the waiter is asleep", func() bool { return blocked(s) > 0 })
	return wake
}

func blocked(s *Store) int {
	s.wakes.mu.Lock()
	defer s.wakes.mu.Unlock()
	return s.wakes.blocked
}

func woken(t *testing.T, wake <-chan struct{}) {
	t.Helper()
	select {
	case <-wake:
	case <-time.After(30 * time.Second):
		t.Fatal("not woken")
	}
}

func onlyOnLinux(t *testing.T) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("left out: other processes wake nobody here")
	}
}

func TestAReleaseWakesAnotherProcess(t *testing.T) {
	onlyOnLinux(t)
	path := tempPath(t)
	s := mustOpen(t, path)
	_, release := holder(t, path, "job", distant)
	wake := asleep(t, s, "job")
	begin := time.Now()
	release()
	woken(t, wake)
	mustAcquire(t, s, request("job", distant))
	t.Logf("held again %v after the release was asked for", time.Since(begin))
}

func TestTheDeathOfTheHolderWakesAnotherProcessAndTheLeaseStillRuns(t *testing.T) {
	onlyOnLinux(t)
	path := tempPath(t)
	s := mustOpen(t, path)
	const ttl = 3 * time.Second
	begin := time.Now()
	cmd, _ := holder(t, path, "job", ttl)
	wake := asleep(t, s, "job")
	cmd.Process.Kill()
	killed := time.Now()
	woken(t, wake)
	t.Logf("woken %v after the kill", time.Since(killed))
	// No timer of its own: it looks only when it is woken.
	for tries := 1; ; tries++ {
		if tryAcquire(t, s, request("job", distant)).Granted {
			t.Logf("%d tries", tries)
			break
		}
		woken(t, wake)
	}
	if took := time.Since(begin); took < ttl {
		t.Errorf("a second one was let in after %v, the lease was for %v", took, ttl)
	}
}

func TestOneReleaseWakesOneWaiter(t *testing.T) {
	onlyOnLinux(t)
	path := tempPath(t)
	first := mustOpen(t, path)
	held := request("job", distant)
	mustAcquire(t, first, held)
	const waiters = 8
	woke := make(chan *Store, waiters) // each store is as a process of its own
	for range waiters {
		s := mustOpen(t, path)
		wake := asleep(t, s, "job")
		go func() {
			<-wake
			woke <- s
		}()
	}
	released := time.Now()
	mustRelease(t, first, held)
	for i := range waiters {
		s := <-woke
		req := request("job", distant)
		mustAcquire(t, s, req)
		// Nobody else was woken, unless this one took so long that it was
		// passed over.
		if others := len(woke); others != 0 && time.Since(released) < candidacy {
			t.Errorf("release %d woke %d waiters", i+1, others+1)
		}
		released = time.Now()
		mustRelease(t, s, req)
	}
}

func TestACandidateThatDoesNothingIsPassedOver(t *testing.T) {
	onlyOnLinux(t)
	path := tempPath(t)
	first, idle, other := mustOpen(t, path), mustOpen(t, path), mustOpen(t, path)
	held := request("job", distant)
	mustAcquire(t, first, held)
	asleep(t, idle, "job")
	wake := asleep(t, other, "job")
	mustRelease(t, first, held)
	woken(t, wake)
	mustAcquire(t, other, request("job", distant))
}

func TestTheEndOfALeaseThatNobodyReleasedWakes(t *testing.T) {
	path := tempPath(t)
	first, other := mustOpen(t, path), mustOpen(t, path)
	mustAcquire(t, first, request("job", 300*time.Millisecond))
	wake, stop := other.Subscribe("job")
	defer stop()
	eventually(t, "woken with the name free", func() bool {
		woken(t, wake)
		return tryAcquire(t, other, request("job", distant)).Granted
	})
}

func TestAStoreThatWasClosedLeavesTheKernelWhenTheHolderLetsGo(t *testing.T) {
	onlyOnLinux(t)
	path := tempPath(t)
	first, other := mustOpen(t, path), mustOpen(t, path)
	held := request("job", distant)
	mustAcquire(t, first, held)
	asleep(t, other, "job")
	if err := other.Close(); err != nil { // returns, though the goroutine is still there
		t.Fatal(err)
	}
	if blocked(other) != 1 {
		t.Error("nobody was left behind: nothing was tested")
	}
	mustRelease(t, first, held)
	eventually(t, "the goroutine is gone", func() bool { return blocked(other) == 0 })
}

func TestNamesBeyondTheLimitAreWokenToo(t *testing.T) {
	onlyOnLinux(t)
	path := tempPath(t)
	first, other := mustOpen(t, path), mustOpen(t, path)
	var held []driver.AcquireRequest
	var wakes []<-chan struct{}
	for i := range maxBlocked + 3 {
		req := request(fmt.Sprint("job ", i), distant)
		mustAcquire(t, first, req)
		held = append(held, req)
		wake, stop := other.Subscribe(req.Name)
		defer stop()
		<-wake
		wakes = append(wakes, wake)
	}
	if n := blocked(other); n != maxBlocked {
		t.Errorf("%d goroutines in the kernel, want %d", n, maxBlocked)
	}
	for i, req := range held {
		mustRelease(t, first, req)
		woken(t, wakes[i])
	}
}

func TestNothingIsKeptOfANameThatNobodyHereUses(t *testing.T) {
	path := tempPath(t)
	s, other := mustOpen(t, path), mustOpen(t, path)
	held := request("job", distant)
	mustAcquire(t, other, held)
	for range 100 {
		_, stop := s.Subscribe("job")
		tryAcquire(t, s, request("job", distant))
		stop()
	}
	mustRelease(t, other, held)
	for i := range 100 {
		req := request(fmt.Sprint("name ", i), distant)
		mustAcquire(t, s, req)
		mustRelease(t, s, req)
	}
	eventually(t, "no place is left", func() bool {
		s.wakes.mu.Lock()
		defer s.wakes.mu.Unlock()
		return len(s.wakes.places) == 0
	})
}
