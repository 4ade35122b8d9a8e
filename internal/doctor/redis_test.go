package doctor

import (
	"errors"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfastlock/holdfast/driver"
	"github.com/holdfastlock/holdfast/internal/redistest"
	"github.com/holdfastlock/holdfast/redisstore"
)

// fit is a server to which nothing is to be said.
var fit = redistest.Options{AppendOnly: true, MaxMemory: "100mb"}

func start(t *testing.T, options redistest.Options) *redistest.Server {
	t.Helper()
	options.Args = append(slices.Clone(options.Args), "--enable-debug-command", "yes")
	return redistest.Start(t, options)
}

func do(t *testing.T, server *redistest.Process, words ...string) string {
	t.Helper()
	if len(words) == 1 {
		words = strings.Fields(words[0])
	}
	message, err := server.Do(words...).ToMessage()
	if err != nil {
		t.Fatalf("%v: %v", words, err)
	}
	return message.String()
}

// state is what must be the same before and after.
func state(t *testing.T, server *redistest.Process) []string {
	t.Helper()
	var all []string
	for _, command := range []string{"DEBUG DIGEST", "DBSIZE", "CONFIG GET *", "ACL LIST", "FUNCTION LIST", "PUBSUB CHANNELS", "PUBSUB SHARDCHANNELS"} {
		all = append(all, command+" "+do(t, server, command))
	}
	counts := regexp.MustCompile(`(rdb_changes_since_last_save|aof_current_size):\d+|keys=\d+,expires=\d+`)
	for _, section := range []string{"persistence", "keyspace"} {
		info, err := server.Do("INFO", section).ToString()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, counts.FindAllString(info, -1)...)
	}
	return all
}

// unchanged runs fn and checks that the server is as before, as soon as it has
// noticed that the connection was closed.
func unchanged(t *testing.T, server *redistest.Process, fn func()) {
	t.Helper()
	do(t, server, "SET", "lock:held", "token", "PX", "1000000")
	do(t, server, "HSET", "lock:~f:{lock:held}", "f", "v")
	before := state(t, server)
	fn()
	until(t, func() bool { return strings.Count(do(t, server, "CLIENT LIST"), " age=") == 1 })
	for i, after := range state(t, server) {
		if after != before[i] {
			t.Errorf("the server was changed:\n%s\nis now\n%s", before[i], after)
		}
	}
}

func TestAServerThatIsFitIsFoundToBeAndIsLeftAsItWas(t *testing.T) {
	server := start(t, fit)
	unchanged(t, server.Process, func() {
		all := examine(t, server.URL()+"?no_eviction=required")
		all.wantFit(t)
		for _, check := range []string{"version", "role", "rights", "scripts", "native", "pubsub", "eviction", "memory", "persistence", "disk", "access", "clock", "round-trip"} {
			all.want(t, OK, check)
		}
	})
}

// rule reads the rule with scripts in the comment of package redisstore.
func rule(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("../../redisstore/store.go")
	if err != nil {
		t.Fatal(err)
	}
	var commands []string
	_, rest, _ := strings.Cut(string(text), "\twith scripts ")
	block, _, _ := strings.Cut(rest, "\twithout channels ")
	for _, word := range strings.Fields(block) {
		if strings.HasPrefix(word, "+") {
			commands = appendOnce(commands, strings.TrimPrefix(word, "+"))
		}
	}
	slices.Sort(commands)
	return commands
}

func TestTheRightsAreThoseOfTheStore(t *testing.T) {
	var tried []string
	for _, want := range slices.Concat(scripting, needed, []right{publishRight, subscribeRight, unsubscribeRight}) {
		tried = append(tried, want.command)
	}
	slices.Sort(tried)
	if want := rule(t); !slices.Equal(tried, want) {
		t.Errorf("tried are %v, the store needs %v", tried, want)
	}
}

// restricted makes a user, and returns the URL for it.
func restricted(t *testing.T, server *redistest.Server, rules ...string) string {
	t.Helper()
	do(t, server.Process, append([]string{"ACL", "SETUSER", "limited", "reset", "on", ">pw"}, rules...)...)
	return "redis://limited:pw@" + server.Addr()
}

// least is the rule of the store.
func least(t *testing.T) []string {
	rules := []string{"~lock:*", "&lock:*", "-@all"}
	for _, command := range rule(t) {
		rules = append(rules, "+"+command)
	}
	return rules
}

func TestTheLeastRightsAreEnough(t *testing.T) {
	server := start(t, fit)
	url := restricted(t, server, least(t)...)
	unchanged(t, server.Process, func() {
		all := examine(t, url)
		all.wantFit(t)
		all.want(t, OK, "rights", "limited")
		all.want(t, Note, "settings", "can't be seen", "ACL SETUSER limited +config|get")
	})
}

func TestEachMissingRightIsNamedAndItsLineCuresIt(t *testing.T) {
	server := start(t, fit)
	for i, missing := range least(t) {
		if missing == "-@all" || missing == "+info" || missing == "+scan" {
			continue // the last two are no more than noted
		}
		url := restricted(t, server, slices.Delete(least(t), i, i+1)...)
		line := ""
		unchanged(t, server.Process, func() {
			for _, f := range examine(t, url) {
				if f.Check == "rights" && (f.Severity == Failure || f.Severity == Warning) {
					line = f.Fix
				}
			}
		})
		if line != "ACL SETUSER limited "+missing {
			t.Errorf("without %s the line is %q", missing, line)
			continue
		}
		do(t, server.Process, line)
		examine(t, url).wantFit(t)
	}
}

func TestOneLineCuresAUserWithoutRights(t *testing.T) {
	server := start(t, fit)
	url := restricted(t, server, "~lock:*", "-@all")
	for _, f := range examine(t, url) {
		if f.Check == "rights" {
			do(t, server.Process, f.Fix)
		}
	}
	examine(t, url).wantFit(t)
}

func TestWhatCanNotBeSeenIsNoFailure(t *testing.T) {
	server := start(t, fit)
	all := examine(t, restricted(t, server, append(least(t), "-info")...))
	all.wantFit(t)
	all.want(t, Note, "version", "can't be seen", "ACL SETUSER limited +info")
	all.want(t, Note, "rights", "info", "ACL SETUSER limited +info")
	all.want(t, OK, "role", "primary")
}

func TestACommandThatIsRenamedIsMissed(t *testing.T) {
	server := start(t, redistest.Options{Args: []string{"--rename-command", "ZADD", "secret", "--rename-command", "EVAL", ""}})
	all := examine(t, server.URL())
	all.want(t, Failure, "commands", "eval", "zadd")
	all.want(t, Warning, "scripts", "not allowed; transactions are")
}

func TestWithoutScriptsTransactionsTakeTheirPlace(t *testing.T) {
	server := start(t, fit)
	url := restricted(t, server, append(least(t), "-eval", "-evalsha", "-hgetall", "-zrank", "-zpopmin",
		"+watch", "+multi", "+exec", "+hscan", "+zrange")...)
	unchanged(t, server.Process, func() {
		all := examine(t, url)
		all.want(t, Warning, "scripts", "transactions are", "ACL SETUSER limited +eval +evalsha")
		all.want(t, Warning, "rights", "eval", "ACL SETUSER limited +evalsha +eval")
	})
	for _, missing := range []string{"watch", "multi", "exec"} {
		do(t, server.Process, "ACL SETUSER limited -"+missing)
		unchanged(t, server.Process, func() {
			examine(t, url).want(t, Failure, "scripts", "nor are WATCH, MULTI and EXEC")
		})
		do(t, server.Process, "ACL SETUSER limited +"+missing)
	}
}

func TestNativeCommandsAreFoundByTrying(t *testing.T) {
	server := start(t, fit)
	all := examine(t, server.URL())
	for _, name := range []string{"DELIFEQ", "DELEX"} {
		list := do(t, server.Process, "COMMAND", "LIST", "FILTERBY", "PATTERN", strings.ToLower(name))
		if strings.Contains(list, strings.ToLower(name)) {
			all.want(t, OK, "native", "compares by itself", name)
		} else if strings.Contains(all.String(), "compares by itself: "+name) {
			t.Errorf("%s is found where there is none:\n%s", name, all)
		}
	}
}

func TestMemoryAndEvictionAreJudged(t *testing.T) {
	server := start(t, redistest.Options{})
	all := examine(t, server.URL())
	all.want(t, OK, "eviction", "noeviction")
	all.want(t, Note, "memory", "no maxmemory")

	do(t, server.Process, "CONFIG SET maxmemory-policy volatile-lru")
	examine(t, server.URL()).want(t, Warning, "eviction", "volatile-lru", "CONFIG SET maxmemory-policy noeviction")
	do(t, server.Process, "CONFIG SET maxmemory 100mb")
	examine(t, server.URL()).want(t, Failure, "eviction", "volatile-lru")

	do(t, server.Process, "CONFIG SET maxmemory-policy noeviction")
	do(t, server.Process, "CONFIG SET maxmemory 1")
	all = examine(t, server.URL())
	all.want(t, Failure, "memory", "used")
	all.want(t, OK, "rights")
}

func TestPersistenceIsJudged(t *testing.T) {
	server := start(t, redistest.Options{})
	examine(t, server.URL()).want(t, Warning, "persistence", "no snapshots", "CONFIG SET appendonly yes")
	all, err := tryExamine(t, server.URL()+"?wait_fsync=true", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	all.want(t, Failure, "persistence", "appendonly no")
	do(t, server.Process, "CONFIG", "SET", "save", "60 1")
	examine(t, server.URL()).want(t, Warning, "persistence", "save 60 1")
	do(t, server.Process, "CONFIG SET appendonly yes")
	do(t, server.Process, "CONFIG SET appendfsync everysec")
	examine(t, server.URL()).want(t, Note, "persistence", "everysec", "CONFIG SET appendfsync always")
}

func TestADiskThatTakesNothingIsAFailure(t *testing.T) {
	server := start(t, redistest.Options{})
	dir, _ := server.Do("CONFIG", "GET", "dir").AsStrMap()
	if err := os.RemoveAll(dir["dir"]); err != nil {
		t.Fatal(err)
	}
	_ = server.Do("BGSAVE").Error()
	until(t, func() bool {
		info, _ := server.Do("INFO", "persistence").ToString()
		return strings.Contains(info, "rdb_last_bgsave_status:err")
	})
	examine(t, server.URL()).want(t, Failure, "disk", "snapshot failed", "BGSAVE")
}

func until(t *testing.T, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("waited too long")
		}
	}
}

func TestAReplicaIsAFailureAndItsPrimaryHasOne(t *testing.T) {
	options := fit
	options.Args = []string{"--repl-diskless-sync-delay", "0"}
	primary := start(t, options)
	host, port, _ := strings.Cut(primary.Addr(), ":")
	replica := start(t, redistest.Options{Args: []string{"--replicaof", host + " " + port}})
	until(t, func() bool {
		info, _ := primary.Do("INFO", "replication").ToString()
		return strings.Contains(info, "state=online")
	})
	examine(t, replica.URL()).want(t, Failure, "role", "replica of "+primary.Addr())
	all := examine(t, primary.URL())
	all.want(t, Note, "replicas", "1 connected", "wait_replicas")
	all.want(t, Warning, "min-replicas", "CONFIG SET min-replicas-to-write 1")
	examine(t, primary.URL()+"?wait_replicas=1").want(t, OK, "replicas", "a lock waits for 1")
	examine(t, primary.URL()+"?wait_replicas=2").want(t, Failure, "replicas", "wait_replicas=2")
	do(t, primary.Process, "CONFIG SET min-replicas-to-write 3")
	examine(t, primary.URL()).want(t, Failure, "replicas", "min-replicas-to-write 3")
	replica.Kill()
	until(t, func() bool {
		info, _ := primary.Do("INFO", "replication").ToString()
		return strings.Contains(info, "connected_slaves:0")
	})
	do(t, primary.Process, "CONFIG SET min-replicas-to-write 0")
	examine(t, primary.URL()).want(t, Note, "replicas", "none")
}

func TestTimesAreJudgedByTheTTL(t *testing.T) {
	server := start(t, fit)
	proxy := redistest.NewProxy(t, server.Addr())
	proxy.Delay(5 * time.Millisecond)
	url := "redis://" + proxy.Addr()
	for ttl, severity := range map[time.Duration]Severity{15 * time.Millisecond: Failure, time.Hour: OK} {
		all, err := tryExamine(t, url, ttl)
		if err != nil {
			t.Fatal(err)
		}
		all.want(t, severity, "round-trip", "median")
		all.want(t, OK, "clock", "as ours")
	}
}

func TestAStoreThatCanNotBeExaminedIsAnError(t *testing.T) {
	server := start(t, redistest.Options{Password: "hunter2"})
	for url, kind := range map[string]error{
		"redis://127.0.0.1:1":                                driver.ErrUnreachable,
		"redis://" + server.Addr():                           driver.ErrRefused,
		"redis://:wrong@" + server.Addr():                    driver.ErrRefused,
		server.URL() + "/999":                                driver.ErrMisconfigured,
		"redis://host?unknown=1":                             driver.ErrMisconfigured,
		"redis+sentinel://127.0.0.1:1/set":                   driver.ErrUnreachable,
		"quorum+redis://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3": driver.ErrUnreachable,
	} {
		var all findings
		err := Examine(t.Context(), url, Options{TTL: time.Minute, ConnectTimeout: 300 * time.Millisecond, Found: func(f Finding) { all = append(all, f) }})
		if !errors.Is(err, kind) || strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "wrong@") {
			t.Errorf("%s: %v", url, err)
		}
		if len(all) > 0 {
			t.Errorf("%s: found\n%s", url, all)
		}
	}
}

func TestAPasswordThatAServerRepeatsIsNotShown(t *testing.T) {
	var all findings
	plain := &report{Options: Options{Found: func(f Finding) { all = append(all, f) }}}
	options := redisstore.Options{}
	options.Client.Password, options.Client.Sentinel.Password = "hunter2", "hunter3"
	plain.without(secrets([]redisstore.Options{options})).ok("version", "unknown command 'HELLO' with 'hunter2' 'hunter3'")
	all.want(t, OK, "version", "'***' '***'")
}

func TestAServerThatFallsSilentEndsTheExamination(t *testing.T) {
	server := start(t, fit)
	defer server.Resume()
	count := 0
	err := Examine(t.Context(), server.URL(), Options{TTL: time.Minute, ConnectTimeout: time.Second, Found: func(Finding) {
		if count++; count == 1 {
			server.Pause()
		}
	}})
	if !errors.Is(err, driver.ErrUnreachable) || count > 3 {
		t.Errorf("after %d findings: %v", count, err)
	}
}
