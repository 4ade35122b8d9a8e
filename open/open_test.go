package open

import (
	"errors"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfastlock/holdfast/driver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestAGoodURLIsUnderstood(t *testing.T) {
	for _, text := range []string{
		"local",
		"sqlite:///var/lib/holdfast/locks.db",
		"sqlite:///srv/a@b/locks.db",
		"redis://localhost",
		"redis://localhost/",
		"redis://localhost:6380/3?prefix=app:",
		"redis://user:p%40ss@[::1]:6379",
		"rediss://:secret@example.org?skip_verify=true",
		"unix:///run/redis.sock?db=2&prefix=app:",
		"redis://localhost?wait_replicas=1&wait_fsync=false&no_eviction=required",
		"postgres://localhost",
		"postgres://me:p%40ss@[::1]:5433/db?sslmode=disable&search_path=locks",
		"postgres://db1,db2/db?target_session_attrs=read-write",
		"postgres://db1:5432,db2:5433/db?target_session_attrs=read-write&connect_timeout=3",
		"postgresql:///db?host=/run/postgresql",
	} {
		if _, err := parse(text); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestAURLSaysWhereItsServerIs(t *testing.T) {
	where, err := parse("redis://me:p%40ss@db.example:6380/3?prefix=app:")
	if err != nil {
		t.Fatal(err)
	}
	got := where.redis
	if got.InitAddress[0] != "db.example:6380" || got.Username != "me" || got.Password != "p@ss" || got.SelectDB != 3 || where.prefix != "app:" {
		t.Errorf("got %v %q %q db %d prefix %q", got.InitAddress, got.Username, got.Password, got.SelectDB, where.prefix)
	}
	where, err = parse("redis://host?no_eviction=required&wait_replicas=2&wait_fsync=true&wait_timeout=1s")
	safe := where.safety
	if err != nil || !safe.RequireNoEviction || safe.WaitReplicas != 2 || !safe.WaitFsync || safe.WaitTimeout != time.Second {
		t.Errorf("got %+v, %v", safe, err)
	}
	if where, err = parse("sqlite:///a%20b/c.db"); err != nil || where.path != "/a b/c.db" {
		t.Errorf("got path %q, %v", where.path, err)
	}
}

func TestABadURLIsOneLineThatSaysWhatToDo(t *testing.T) {
	for text, want := range map[string]string{
		"":                                              "scheme://",
		"localhost:6379":                                "scheme://",
		"redis:localhost":                               "scheme://",
		"mysql://host":                                  "unknown scheme",
		"redis+sentinel://a,b/main":                     "not supported by this version; it supports local",
		"redis+cluster://a,b":                           "not supported by this version",
		"quorum+redis://a,b,c":                          "not supported by this version",
		"sqlite://relative.db":                          "absolute path",
		"sqlite:///":                                    "absolute path",
		"sqlite:///a.db?mode=ro":                        "no parameters",
		"redis://:hunter2/x@host":                       "%2F",
		"redis://:hunter2#x@host":                       "%2F",
		"redis://:hunter2%@host":                        "%25",
		"redis://host/main":                             "number of a database",
		"redis://host/-1":                               "number of a database",
		"redis://host:70000":                            "port",
		"redis://host1,host2":                           "one server",
		"redis://host?prefix=a&addr=other":              "unknown parameter",
		"redis://host?db=x":                             "db must be a number",
		"rediss://host?skip_verify=perhaps":             "skip_verify",
		"redis://host?no_eviction=true":                 "required",
		"redis://host?wait_replicas=0":                  "from 1",
		"redis://host?wait_replicas=all":                "from 1",
		"redis://host?wait_fsync=always":                "true or false",
		"redis://host?wait_timeout=1s":                  "wait_timeout without wait_replicas",
		"redis://host?wait_fsync=true&wait_timeout=200": "such as 200ms",
		"unix://run/redis.sock":                         "unix:///path",
		"redis://host\n":                                "control character",
		"postgres://:hunter2/x@host/db":                 "%2F",
		"postgres://h/db?password=hunter2":              "unknown parameter",
		"postgres://h/db?sslmode=hunter2":               "check its numbers",
		"postgres://h/db?sslrootcert=/none":             "its files",
		"postgres://host:x/db":                          "port",
	} {
		_, err := parse(text)
		if !errors.Is(err, driver.ErrMisconfigured) {
			t.Errorf("%q: got %v", text, err)
			continue
		}
		if got := err.Error(); !strings.Contains(got, want) || strings.Contains(got, "\n") || strings.Contains(got, "hunter2") {
			t.Errorf("%q: got %q, want it to contain %q", text, got, want)
		}
	}
}

func TestTheRedactedURLNamesTheSameStoreWithoutThePassword(t *testing.T) {
	for text, want := range map[string]string{
		"local":                             "local",
		"sqlite:///srv/a@b/c.db":            "sqlite:///srv/a@b/c.db",
		"redis://host/3?prefix=app:":        "redis://host/3?prefix=app:",
		"redis://:hunter2@host":             "redis://host",
		"redis://me:hunter2@host:1/2":       "redis://me@host:1/2",
		"redis://:hun/ter2@host":            "redis://host",
		"redis://:hun@ter2@host":            "redis://host",
		"postgres://me:hunter2@a,b:1/db?x":  "postgres://me@a,b:1/db?x",
		"unix://:hunter2@/run/redis.sock":   "unix:///run/redis.sock",
		"me:hunter2@host":                   "host",
		"sqlite://me:hunter2@host/x":        "sqlite://me@host/x",
		"redis://me:hunter2@host\x1b[31m\n": "redis://me@host[31m",
	} {
		if got := Redact(text); got != want {
			t.Errorf("Redact(%q) = %q, want %q", text, got, want)
		}
	}
}

// FuzzURL looks for a URL that panics, or that shows its password in an error
// or when it is redacted.
func FuzzURL(f *testing.F) {
	for _, seed := range [][3]string{
		{"redis", "me", "host:6379/0?prefix=app:"},
		{"rediss", "", "[::1]"},
		{"unix", "", "/run/redis.sock?db=1"},
		{"sqlite", "", "/path/file.db"},
		{"postgres", "me", "host/db?sslmode=require"},
		{"redis", "a/b", "host"},
		{"redis", "%", "host"},
	} {
		f.Add(seed[0], seed[1], seed[2])
	}
	const password = "hunter2-7Qx"
	f.Fuzz(func(t *testing.T, scheme, user, rest string) {
		if strings.HasPrefix(scheme+"://"+user, "sqlite:///") {
			t.Skip("a path has no password")
		}
		url := scheme + "://" + user + ":" + password + "@" + rest
		if strings.Contains(Redact(url), password) {
			t.Errorf("Redact(%q) = %q", url, Redact(url))
		}
		_, err := parse(url)
		if err == nil {
			return
		}
		if text := err.Error(); strings.Contains(text, password) || strings.ContainsAny(text, "\r\n") {
			t.Errorf("%q: error %q", url, text)
		}
	})
}
