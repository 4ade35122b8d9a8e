package filefence

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfastlock/holdfast/fence"
	"github.com/holdfastlock/holdfast/fence/internal/fencetest"
)

// writerOf makes the test binary a process that writes a file until it is
// killed.
const writerOf = "FILEFENCE_TEST_WRITER"

func TestMain(m *testing.M) {
	if path := os.Getenv(writerOf); path != "" {
		fmt.Println(writeForEver(path))
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}

func newDir(t *testing.T, path string) *Dir {
	t.Helper()
	dir, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestConformanceOfADir(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "b")
	var mu sync.Mutex
	lists := map[string][]int64{}
	fencetest.Run(t, fencetest.Resources{
		Touch: func(ctx context.Context, resource, owner string, shown int64) error {
			return newDir(t, path).Touch(ctx, resource, owner, shown)
		},
		Append: func(ctx context.Context, resource, owner string, shown int64, between func() error) error {
			return newDir(t, path).Do(ctx, resource, owner, shown, func(context.Context) error {
				if err := between(); err != nil {
					return err
				}
				mu.Lock()
				defer mu.Unlock()
				lists[resource] = append(lists[resource], shown)
				return nil
			})
		},
		List: func(_ *testing.T, resource string) []int64 {
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(lists[resource])
		},
		Reopen: func(*testing.T) {}, // every call opens it
	})
}

func TestConformanceOfGuardedFiles(t *testing.T) {
	folder := t.TempDir()
	pathOf := func(resource string) string {
		name := hex.EncodeToString([]byte(resource))
		return filepath.Join(folder, name[:min(len(name), 100)])
	}
	read := func(resource string) (list []int64, err error) {
		text, err := os.ReadFile(pathOf(resource))
		if err == nil {
			err = json.Unmarshal(text, &list)
		}
		if errors.Is(err, os.ErrNotExist) {
			err = nil
		}
		return list, err
	}
	fencetest.Run(t, fencetest.Resources{
		Touch: func(ctx context.Context, resource, owner string, shown int64) error {
			return named(resource, TouchFile(ctx, pathOf(resource), owner, shown))
		},
		// Another may come between the two calls, but then the second is refused.
		Append: func(ctx context.Context, resource, owner string, shown int64, _ func() error) error {
			if err := TouchFile(ctx, pathOf(resource), owner, shown); err != nil {
				return named(resource, err)
			}
			list, err := read(resource)
			if err != nil {
				return err
			}
			text, _ := json.Marshal(append(list, shown))
			return named(resource, WriteFile(ctx, pathOf(resource), owner, shown, text, 0o644))
		},
		List: func(t *testing.T, resource string) []int64 {
			list, err := read(resource)
			if err != nil {
				t.Fatal(err)
			}
			return list
		},
		Indivisible: true,
		Reopen:      func(*testing.T) {}, // every call opens it
	})
}

// named puts the name of the resource in the place of the path.
func named(resource string, err error) error {
	var stale *fence.StaleError
	if errors.As(err, &stale) {
		stale.Resource = resource
	}
	var conflict *fence.ConflictError
	if errors.As(err, &conflict) {
		conflict.Resource = resource
	}
	return err
}

func TestAFileHasTheModeAndContentThatWasWrittenLast(t *testing.T) {
	path := filepath.Join(t.TempDir(), "report")
	for i, mode := range []os.FileMode{0o600, 0o640} {
		content := bytes.Repeat([]byte{'x'}, 10-i)
		// As a crash may leave it.
		if err := os.WriteFile(path+".fence-draft", []byte("half of a"), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := WriteFile(t.Context(), path, "a", 41, content, mode); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(path)
		info, _ := os.Stat(path)
		if err != nil || !bytes.Equal(got, content) || info.Mode() != mode {
			t.Errorf("content %q, mode %v (%v), want %q, %v", got, info.Mode(), err, content, mode)
		}
	}
}

func TestAMarkThatCantBeReadLetsNobodyIn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "report")
	for _, text := range []string{"", "{", "{}", `{"fence":-1}`} {
		if err := os.WriteFile(path+".fence", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := WriteFile(t.Context(), path, "a", 41, nil, 0o600); err == nil {
			t.Errorf("with a mark of %q the write was accepted", text)
		}
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file was written: %v", err)
	}
}

func TestAWriterThatIsKilledLeavesTheOldFileOrTheNewOne(t *testing.T) {
	path := filepath.Join(t.TempDir(), "report")
	for i := range 20 {
		writer := exec.Command(os.Args[0])
		writer.Env = append(os.Environ(), writerOf+"="+path)
		if err := writer.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(20+7*i) * time.Millisecond) // anywhere: after a start, amid a write
		writer.Process.Kill()
		writer.Wait()
		last := contentFence(t, path)
		mark, err := sidecar(path).read()
		if err != nil || mark.Fence < last {
			t.Fatalf("the mark is %+v (%v), the file was written under %d", mark, err, last)
		}
		if err := WriteFile(t.Context(), path, "other", mark.Fence-1, nil, 0o600); mark.Fence > 1 && !errors.Is(err, fence.ErrStale) {
			t.Fatalf("a stale write was answered with %v", err)
		}
	}
	if contentFence(t, path) == 0 {
		t.Error("nothing was ever written")
	}
}

const lines = 2000

// writeForEver continues with the fence after the last one.
func writeForEver(path string) error {
	mark, err := sidecar(path).read()
	for shown := mark.Fence + 1; err == nil; shown++ {
		content := bytes.Repeat(fmt.Appendf(nil, "%d\n", shown), lines)
		err = WriteFile(context.Background(), path, strconv.Itoa(os.Getpid()), shown, content, 0o600)
	}
	return err
}

// contentFence returns under which fence the file was written, after a look
// whether it is whole.
func contentFence(t *testing.T, path string) int64 {
	t.Helper()
	content, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return 0
	}
	first, _, _ := bytes.Cut(content, []byte("\n"))
	shown, parseErr := strconv.ParseInt(string(first), 10, 64)
	if err != nil || parseErr != nil || !bytes.Equal(content, bytes.Repeat(append(first, '\n'), lines)) {
		t.Fatalf("the file is not whole: %d bytes that begin with %q (%v, %v)", len(content), first, err, parseErr)
	}
	return shown
}

func TestAProcessThatInheritsTheLockKeepsTheResourceClosed(t *testing.T) {
	dir := newDir(t, t.TempDir())
	held, err := dir.Hold(t.Context(), "report", "a", 41)
	if err != nil {
		t.Fatal(err)
	}
	child := exec.Command("cat") // ends with its input
	child.ExtraFiles = []*os.File{held.File()}
	input, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	held.Release()
	held.Release()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := dir.Touch(ctx, "report", "b", 42); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("while the child has the lock a later holder was answered with %v", err)
	}
	input.Close()
	child.Wait()
	if err := dir.Touch(t.Context(), "report", "b", 42); err != nil {
		t.Error(err)
	}
}
