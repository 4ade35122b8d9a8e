package doctor

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/ncruces/go-sqlite3"

	"github.com/holdfastlock/holdfast/driver"
	"github.com/holdfastlock/holdfast/sqlitestore"
)

// listing is what is in a folder, with contents and times.
func listing(t *testing.T, folder string) string {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	text := ""
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil {
			t.Fatal(err)
		}
		content, _ := os.ReadFile(filepath.Join(folder, entry.Name()))
		text += fmt.Sprintln(info.Name(), info.Mode(), info.ModTime(), sha256.Sum256(content))
	}
	return text
}

// untouched runs fn and checks that the folder is as before.
func untouched(t *testing.T, folder string, fn func()) {
	t.Helper()
	before := listing(t, folder)
	fn()
	if after := listing(t, folder); after != before {
		t.Errorf("the folder was changed:\n%s\nis now\n%s", before, after)
	}
}

func openFile(t *testing.T, path string) *sqlitestore.Store {
	t.Helper()
	s, err := sqlitestore.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestAFileIsExaminedAndLeftAsItWas(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "locks.db")
	url := "sqlite://" + path
	untouched(t, folder, func() {
		all := examine(t, "sqlite://"+filepath.Join(folder, "a", "b", "locks.db"))
		all.wantFit(t)
		all.want(t, OK, "place", "not there yet")
	})
	s := openFile(t, path)
	if _, err := s.Acquire(t.Context(), driver.AcquireRequest{Name: "held", Token: "token", TTL: 1e12}); err != nil {
		t.Fatal(err)
	}
	fit := func() {
		t.Helper()
		all := examine(t, url)
		all.wantFit(t)
		for _, check := range []string{"place", "file-system", "disk", "writable", "private", "format", "content"} {
			all.want(t, OK, check)
		}
	}
	fit() // while it is open; the marks of readers beside it may change
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	untouched(t, folder, fit)
}

func TestAFileThatOthersCanReadIsWarnedOf(t *testing.T) {
	path := filepath.Join(t.TempDir(), "locks.db")
	if err := openFile(t, path).Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	examine(t, "sqlite://"+path).want(t, Warning, "private", "0640", "chmod 600")
	if err := errors.Join(os.Chmod(path, 0o600), os.Chmod(filepath.Dir(path), 0o777)); err != nil {
		t.Fatal(err)
	}
	examine(t, "sqlite://"+path).want(t, Warning, "private", filepath.Dir(path)+" has mode 0777", "chmod 700")
}

func TestAFileThatThisUserCanNotWriteIsAFailure(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root can write everything")
	}
	folder := t.TempDir()
	path := filepath.Join(folder, "locks.db")
	if err := openFile(t, path).Close(); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{path, folder} {
		if err := os.Chmod(part, 0o500); err != nil {
			t.Fatal(err)
		}
		examine(t, "sqlite://"+path).want(t, Failure, "writable", part)
	}
	examine(t, "sqlite://"+folder+"/below/locks.db").want(t, Failure, "writable", "install -d")
	if err := os.Chmod(folder, 0o700); err != nil {
		t.Fatal(err)
	}
}

func TestAFileOfAnotherFormatOrDamagedIsJudged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "locks.db")
	if err := openFile(t, path).Close(); err != nil {
		t.Fatal(err)
	}
	for version, severity := range map[int]Severity{99: Failure, 1: Note} {
		conn, err := sqlite3.Open("file:" + path)
		if err != nil {
			t.Fatal(err)
		}
		if err := conn.Exec(fmt.Sprintf("PRAGMA user_version = %d", version)); err != nil {
			t.Fatal(err)
		}
		if err := conn.Close(); err != nil {
			t.Fatal(err)
		}
		examine(t, "sqlite://"+path).want(t, severity, "format", fmt.Sprint(version))
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := 4096; i < len(content); i++ {
		content[i] = 0xff
	}
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	examine(t, "sqlite://"+path).want(t, Failure, "content")
	if err := os.WriteFile(path, []byte("this is no database, but long enough to be looked at"), 0o600); err != nil {
		t.Fatal(err)
	}
	examine(t, "sqlite://"+path).want(t, Failure, "content")
}

func TestAFileInMemoryIsWarnedOf(t *testing.T) {
	folder, err := os.MkdirTemp("/dev/shm", "holdfast")
	if err != nil {
		t.Skip("no file system in memory: ", err)
	}
	defer os.RemoveAll(folder)
	examine(t, "sqlite://"+folder+"/locks.db").want(t, Warning, "file-system", "in memory")
}

func TestAFullDiskIsAFailure(t *testing.T) {
	for bytes, severity := range map[uint64]Severity{0: Failure, 1 << 20: Warning, 1 << 40: OK} {
		var all findings
		free(&report{Options: Options{Found: func(f Finding) { all = append(all, f) }}}, bytes)
		all.want(t, severity, "disk", "free")
	}
}

func TestAPathThatIsNoFileIsMisconfigured(t *testing.T) {
	for _, url := range []string{"sqlite://" + t.TempDir(), "sqlite://relative.db", "sqlite:///a?b=c"} {
		if all, err := tryExamine(t, url, 1e9); !errors.Is(err, driver.ErrMisconfigured) || len(all) > 0 {
			t.Errorf("%s: %v\n%s", url, err, all)
		}
	}
}

func TestTheDefaultPlaceIsSaidToBeOneUsers(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	examine(t, "local").want(t, Note, "place", "holdfast.db", "--store sqlite:///")
}
