package sqlitestore

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfastlock/holdfast/driver"
)

// The many processes of the test below, and how long they go on.
const (
	processes   = 12
	goroutines  = 4 // in each, on 3 names
	kills       = 4
	workTTL     = time.Second
	workTrusted = workTTL * 97 / 100 // what a holder may believe, from before it asked
	workFor     = 4 * time.Second
	workAtMost  = time.Minute // for those who are killed, however slow the machine is
)

var workNames = []string{"red", "green", "blue"}

// work is the role of a process that takes names again and again, and keeps a
// diary that does not depend on the store: when it was inside, by the boot clock.
func work(args []string) error {
	path, diary := args[0], args[1]
	span, err := time.ParseDuration(args[2])
	if err != nil {
		return err
	}
	s, err := Open(context.Background(), path)
	if err != nil {
		return err
	}
	defer s.Close()
	ctx, cancel := context.WithTimeout(context.Background(), span)
	defer cancel()
	file, err := os.OpenFile(diary, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	errs := make(chan error, goroutines)
	for range goroutines {
		go func() { errs <- workOn(ctx, s, file) }()
	}
	for range goroutines {
		if e := <-errs; e != nil && ctx.Err() == nil {
			err = e
		}
	}
	return err
}

func workOn(ctx context.Context, s *Store, diary *os.File) error {
	for ctx.Err() == nil {
		name := workNames[rand.N(len(workNames))]
		lease, err := wait(ctx, s, name)
		if err != nil {
			return err
		}
		// One write each, so that a kill leaves whole lines.
		fmt.Fprintf(diary, "in %s %d %d %d\n", name, lease.fence, readNow().up, lease.trusted)
		time.Sleep(rand.N(5 * time.Millisecond)) // the work
		fmt.Fprintf(diary, "out %s %d %d\n", name, lease.fence, readNow().up)
		if _, err := s.Release(ctx, driver.ReleaseRequest{Name: name, Token: lease.token}); err != nil {
			return err
		}
	}
	return nil
}

type grant struct {
	token   string
	fence   int64
	trusted int64 // until when, by the boot clock in microseconds
}

// wait acquires the name, woken by releases, or after the holder's time.
func wait(ctx context.Context, s *Store, name string) (grant, error) {
	wake, stop := s.Subscribe(name)
	defer stop()
	req := request(name, workTTL)
	for {
		trusted := readNow().up + workTrusted.Microseconds()
		result, err := s.Acquire(ctx, req)
		if err != nil {
			return grant{}, err
		}
		if result.Granted && readNow().up < trusted {
			return grant{req.Token, result.Fence, trusted}, nil
		}
		pause := workTTL
		if !result.Granted {
			pause = result.State.Holders[0].Left + time.Millisecond
		}
		select {
		case <-wake:
		case <-time.After(pause):
		case <-ctx.Done():
			return grant{}, ctx.Err()
		}
	}
}

func TestTwelveProcessesNeverHoldANameTogether(t *testing.T) {
	path := tempPath(t)
	var inside []stay
	var mu sync.Mutex
	var all sync.WaitGroup
	for i := range processes {
		diary := filepath.Join(t.TempDir(), "diary")
		span := workFor
		if i < kills {
			span = workAtMost
		}
		cmd, output := spawn(t, "worker", path, diary, span.String())
		all.Go(func() {
			killed := int64(0)
			if i < kills {
				untilInside(t, diary, i+1)
				killed = readNow().up // it was inside until now, if its diary says so
				cmd.Process.Kill()
			}
			if err := cmd.Wait(); err != nil && killed == 0 {
				t.Errorf("%v: %s", err, output)
			}
			mu.Lock()
			defer mu.Unlock()
			inside = append(inside, readDiary(t, diary, killed)...)
		})
	}
	all.Wait()
	judge(t, inside)
}

// untilInside returns when the diary's last line, after a few, says that the
// process is inside.
func untilInside(t *testing.T, diary string, lines int) {
	for limit := time.Now().Add(30 * time.Second); time.Now().Before(limit); time.Sleep(time.Millisecond) {
		content, _ := os.ReadFile(diary) // not there at first
		all := strings.Split(strings.TrimSpace(string(content)), "\n")
		if len(all) > lines && strings.HasPrefix(all[len(all)-1], "in ") {
			return
		}
	}
	t.Error("the process was never seen inside")
}

// stay is one time that somebody was inside, by the boot clock in microseconds.
type stay struct {
	name        string
	fence       int64
	begin, end  int64
	endedByKill bool
}

func readDiary(t *testing.T, path string, killed int64) []stay {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Error(err)
	}
	open := map[int64]stay{} // by fence and trusted end
	var stays []stay
	for line := range strings.Lines(string(content)) {
		f := strings.Fields(line)
		fence, at := number(t, f[2]), number(t, f[3])
		if f[0] == "in" {
			// Past its trusted end it knows that it is not inside.
			open[fence] = stay{name: f[1], fence: fence, begin: at, end: number(t, f[4])}
			continue
		}
		s := open[fence]
		delete(open, fence)
		s.end = min(s.end, at)
		stays = append(stays, s)
	}
	for _, s := range open {
		s.end, s.endedByKill = max(s.begin, min(s.end, killed)), true
		stays = append(stays, s)
	}
	return stays
}

func number(t *testing.T, text string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Error(err)
	}
	return n
}

func judge(t *testing.T, inside []stay) {
	t.Helper()
	slices.SortFunc(inside, func(a, b stay) int {
		return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.begin, b.begin))
	})
	cut := 0
	for i, s := range inside {
		if s.endedByKill {
			cut++
		}
		if i == 0 || inside[i-1].name != s.name {
			continue
		}
		last := inside[i-1]
		if s.begin < last.end {
			t.Errorf("two inside %s: %+v and %+v", s.name, last, s)
		}
		if s.fence <= last.fence {
			t.Errorf("fence %d of %s after %d", s.fence, s.name, last.fence)
		}
	}
	t.Logf("%d stays, %d of them ended by a kill", len(inside), cut)
	if len(inside) < processes {
		t.Errorf("only %d stays: nothing was tested", len(inside))
	}
}
