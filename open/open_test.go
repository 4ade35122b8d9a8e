package open

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/holdfastlock/holdfast/driver"
)

func TestMain(m *testing.M) {
	// A rueidis client of a cluster leaves a timer of a second behind.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*call).DelayDo.func1"))
}

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
		"redis://:a,b@localhost?protocol=2",
		"unix://me:secret@/run/redis.sock",
		"rediss://localhost?sni=redis.internal&skip_verify=true",
		"redis+sentinel://s1/main",
		"redis+sentinel://:p%2Cw@s1,s2:26380,[::1]/main/2?sentinel_password=x",
		"rediss+sentinel://s1,s2/main.A-b_9?sni=redis.internal",
		"redis+cluster://me:secret@n1:7000,[::1]:7001,n3?prefix=app:&db=0",
		"rediss+cluster://n1/0",
		"quorum+redis://me:secret@n1,[::1]:7001,n3/2?node_timeout=20ms&longest_ttl=1m",
		"quorum+rediss://:a@n1,:b@n2,:c@n3?skip_verify=true&wait_fsync=true",
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

func TestAURLSaysWhereItsFileIs(t *testing.T) {
	if where, err := parse("sqlite:///a%20b/c.db"); err != nil || where.path != "/a b/c.db" {
		t.Errorf("got path %q, %v", where.path, err)
	}
}

func TestABadURLIsOneLineThatSaysWhatToDo(t *testing.T) {
	for text, want := range map[string]string{
		"":                                                "scheme://",
		"localhost:6379":                                  "scheme://",
		"redis:localhost":                                 "scheme://",
		"mysql://host":                                    "unknown scheme",
		"sqlite://relative.db":                            "absolute path",
		"sqlite:///":                                      "absolute path",
		"sqlite:///a.db?mode=ro":                          "no parameters",
		"redis://:hunter2/x@host":                         "%2F",
		"redis://:hunter2#x@host":                         "%2F",
		"redis://:hunter2%@host":                          "%25",
		"redis://host/main":                               "number of a database",
		"redis://host/-1":                                 "number of a database",
		"redis://host:70000":                              "port",
		"redis://host1,host2":                             "one server",
		"redis://host?prefix=a&addr=other":                "unknown parameter",
		"redis://host?db=x":                               "db must be a number",
		"rediss://host?skip_verify=perhaps":               "skip_verify",
		"redis://host?no_eviction=true":                   "required",
		"redis://host?wait_replicas=0":                    "from 1",
		"redis://host?wait_replicas=all":                  "from 1",
		"redis://host?wait_fsync=always":                  "true or false",
		"redis://host?wait_timeout=1s":                    "wait_timeout without wait_replicas",
		"redis://host?wait_fsync=true&wait_timeout=200":   "such as 200ms",
		"unix://run/redis.sock":                           "unix:///path",
		"unix://":                                         "unix:///path",
		"unix:///run/redis.sock?sni=x":                    "no TLS",
		"redis://host?protocol=4":                         "2 or 3",
		"redis://host?skip_verify=true":                   "rediss://",
		"redis://host?cacert=/none":                       "rediss://",
		"rediss://host?cacert=/none":                      "no such file",
		"rediss://host?cacert=/%0Anone":                   "no such file",
		"rediss://host?cacert=/dev/null":                  "no certificate",
		"rediss://host?cert=/none":                        "belong together",
		"rediss://host?key=/none":                         "belong together",
		"rediss://host?cert=/none&key=/none":              "no such file",
		"redis://host?sentinel_password=hunter2":          "only redis+sentinel://",
		"redis://host?longest_ttl=1m":                     "only quorum+redis://",
		"redis+sentinel://s1,s2":                          "the master's name",
		"redis+sentinel://s1,s2/":                         "the master's name",
		"redis+sentinel://s1/a b/0":                       "the master's name",
		"redis+sentinel://s1/m&sentinel_password=hunter2": "the master's name",
		"redis+sentinel://s1/main/x":                      "number of a database",
		"redis+sentinel://s1/main/1/2":                    "number of a database",
		"redis+sentinel://s1,:hunter2@s2/main":            "%2C",
		"redis+sentinel://:hunt,hunter2@s2/main":          "%2C",
		"redis+sentinel://s1,,s2/main":                    "a host is missing",
		"redis+sentinel://s1/m?sentinel_password=hun@ter": "%40",
		"redis+cluster://n1,n2/1":                         "its database 0",
		"redis+cluster://n1,n2?db=1":                      "its database 0",
		"redis+cluster://:70000":                          "port",
		"redis+cluster://":                                "a host is missing",
		"quorum+redis://n1,:hunter2@n2,n3":                "before each",
		"quorum+redis://:hunter2@n1,:hunter2@n2,n3":       "before each",
		"quorum+redis://n1,n2,n3?wait_replicas=1":         "independent",
		"quorum+redis://n1,n2,n3?node_timeout=20":         "such as 200ms",
		"quorum+redis://n1,n2,n3?longest_ttl=0":           "such as 200ms",
		"quorum+redis://n1,n2,n1:6379":                    "twice",
		"redis://host\n":                                  "control character",
		"postgres://:hunter2/x@host/db":                   "%2F",
		"postgres://h/db?password=hunter2":                "unknown parameter",
		"postgres://h/db?sslmode=hunter2":                 "check its numbers",
		"postgres://h/db?sslrootcert=/none":               "its files",
		"postgres://host:x/db":                            "port",
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
		"local":                                      "local",
		"sqlite:///srv/a@b/c.db":                     "sqlite:///srv/a@b/c.db",
		"redis://host/3?prefix=app:":                 "redis://host/3?prefix=app:",
		"redis://:hunter2@host":                      "redis://host",
		"redis://me:hunter2@host:1/2":                "redis://me@host:1/2",
		"redis://:hun/ter2@host":                     "redis://host",
		"redis://:hun@ter2@host":                     "redis://host",
		"postgres://me:hunter2@a,b:1/db?x":           "postgres://me@a,b:1/db",
		"unix://:hunter2@/run/redis.sock":            "unix:///run/redis.sock",
		"redis://host?x=hunter2&db=1#prefix=hunter2": "redis://host?db=1",
		"redis+sentinel://me:hunter2@s1,s2:1/main/2?sentinel_username=s&sentinel_password=hunter2&db=1": "redis+sentinel://me@s1,s2:1/main/2?sentinel_username=s&db=1",
		"redis+sentinel://s1/main?sentinel_password=hunter2":                                            "redis+sentinel://s1/main",
		"redis+sentinel://s1/main?sentinel_password=x@hunter2":                                          "redis+sentinel://",
		"redis+sentinel://s1/main?db=1&sentinel_passwor%64=hunter2":                                     "redis+sentinel://s1/main?db=1",
		"redis+sentinel://s1/main&sentinel_password=hunter2":                                            "redis+sentinel://s1/main&sentinel_",
		"redis+sentinel://s1/main?sentinel_password=x&hunter2":                                          "redis+sentinel://s1/main",
		"redis+cluster://:hunter2@n1,n2":                                                                "redis+cluster://n1,n2",
		"redis+cluster://:x@hunter2,x@n1,n2":                                                            "redis+cluster://n1,n2",
		"quorum+redis://:hunter2@n1,n2,n3/1":                                                            "quorum+redis://n1,n2,n3/1",
		"quorum+redis://a:hunter2@n1,:hunter2@n2,c:hunter2@n3/1":                                        "quorum+redis://a@n1,n2,c@n3/1",
		"quorum+rediss://:x,hunter2@n1,n2,n3":                                                           "quorum+rediss://n1,n2,n3",
		"me:hunter2@host":                                                                               "host",
		"sqlite://me:hunter2@host/x":                                                                    "sqlite://me@host/x",
		"redis://me:hunter2@host\x1b[31m\n":                                                             "redis://me@host[31m",
	} {
		if got := Redact(text); got != want {
			t.Errorf("Redact(%q) = %q, want %q", text, got, want)
		}
	}
}

// FuzzURL looks for a URL that panics, or that shows one of its passwords in an
// error or when it is redacted.
func FuzzURL(f *testing.F) {
	for _, seed := range [][4]string{
		{"redis", "me", "", "host:6379/0?prefix=app:"},
		{"rediss", "", "", "[::1]"},
		{"unix", "", "", "/run/redis.sock?db=1"},
		{"sqlite", "", "", "/path/file.db"},
		{"postgres", "me", "", "host/db?sslmode=require"},
		{"redis", "a/b", "", "host"},
		{"redis", "%", "", "host"},
		{"redis+sentinel", "me", "s1,", "s2:26379/main/0?sentinel_username=x&sentinel_password="},
		{"redis+cluster", "", "[::1],", "n2"},
		{"quorum+redis", "me", "n1,you:$@", "n2,n3/1?longest_ttl=1m"},
		{"quorum+rediss", "", "n1,b:$@", "n2,n3"},
	} {
		f.Add(seed[0], seed[1], seed[2], seed[3])
	}
	f.Fuzz(func(t *testing.T, scheme, user, hosts, rest string) {
		if strings.HasPrefix(scheme+"://"+user, "sqlite:///") {
			t.Skip("a path has no password")
		}
		hosts = strings.ReplaceAll(hosts, ":$@", ":"+password+"@")
		hides(t, scheme+"://"+user+":"+password+"@"+hosts+rest)
		if strings.HasSuffix(rest, "sentinel_password=") {
			hides(t, scheme+"://"+user+"@"+hosts+rest+password)
		}
	})
}

const password = "hunter2-7Qx"

// hides fails the test if the URL's password is to be seen, in full, or if
// without it the URL names another store.
func hides(t *testing.T, url string) {
	redacted := Redact(url)
	if strings.Contains(redacted, password) {
		t.Errorf("Redact(%q) = %q", url, redacted)
	}
	want, err := parse(url)
	if err != nil {
		if text := err.Error(); strings.Contains(text, password) || strings.ContainsAny(text, "\r\n") {
			t.Errorf("%q: error %q", url, text)
		}
		return
	}
	got, err := parse(redacted)
	if url == onOneLine(url) && (err != nil || fmt.Sprint(places(got)) != fmt.Sprint(places(want))) {
		t.Errorf("Redact(%q) = %q names %v, not %v: %v", url, redacted, places(got), places(want), err)
	}
}

// places are what a Redis URL names.
func places(where location) (names []string) {
	for _, node := range where.redis {
		client := node.Client
		names = append(names, fmt.Sprintf("%q %q %d %q", client.InitAddress, client.Sentinel.MasterSet, client.SelectDB, node.Prefix))
	}
	return names
}
