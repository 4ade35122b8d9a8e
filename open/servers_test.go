package open

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfastlock/holdfast"
	"github.com/holdfastlock/holdfast/driver"
	"github.com/holdfastlock/holdfast/internal/redistest"
)

// lock takes a lock at a URL and releases it.
func lock(t *testing.T, url string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	store, closer, err := Store(ctx, url, Options{})
	if err != nil {
		return err
	}
	defer closer.Close()
	locker, err := holdfast.New(store, holdfast.Config{StoreTimeout: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer locker.Close(ctx)
	lease, err := locker.TryAcquire(ctx, "nightly-report")
	if err != nil {
		return err
	}
	return lease.Release(ctx)
}

// outcome is what becomes of a lock at a URL: taken, if it is empty, or an error
// of a kind, if there is one, whose text contains something.
type outcome struct {
	kind error
	text string
}

func check(t *testing.T, outcomes map[string]outcome) {
	t.Helper()
	for url, want := range outcomes {
		err := lock(t, url)
		switch {
		case want == outcome{} && err != nil:
			t.Errorf("%s: %v", url, err)
		case want != outcome{} && (err == nil || want.kind != nil && !errors.Is(err, want.kind) || !strings.Contains(err.Error(), want.text)):
			t.Errorf("%s: %v, want %v: %s", url, err, want.kind, want.text)
		case err != nil && (strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), "hunter2")):
			t.Errorf("%s: the error has a line's end or the password: %q", url, err)
		}
	}
}

func TestSentinelsAreAskedWhereThePrimaryIs(t *testing.T) {
	s := redistest.StartSentinels(t, redistest.SentinelOptions{
		Server: redistest.Options{Password: "hunter2"}, Password: "sesame",
	})
	hosts, one := strings.Join(s.Addrs(), ","), s.Addrs()[0]
	check(t, map[string]outcome{
		"redis+sentinel://:hunter2@" + hosts + "/main?sentinel_password=sesame":               {},
		"redis+sentinel://:hunter2@127.0.0.1:1," + one + "/main/3?sentinel_password=sesame":   {},
		"redis+sentinel://:hunter2@127.0.0.1:1/main?sentinel_password=sesame":                 {driver.ErrUnreachable, "by way of Sentinel: dial tcp 127.0.0.1:1"},
		"redis+sentinel://:hunter2@" + hosts + "/other?sentinel_password=sesame":              {driver.ErrMisconfigured, "No such master"},
		"redis+sentinel://:hunter2@" + hosts + "/main/99?sentinel_password=sesame":            {driver.ErrMisconfigured, "no database of this number"},
		"redis+sentinel://:hunter2@" + hosts + "/main":                                        {driver.ErrRefused, "sentinel_password"},
		"redis+sentinel://:hunter2@" + hosts + "/main?sentinel_password=wrong":                {driver.ErrRefused, "WRONGPASS"},
		"redis+sentinel://:wrong@" + hosts + "/main?sentinel_password=sesame":                 {driver.ErrRefused, "WRONGPASS"},
		"redis+sentinel://" + hosts + "/main?sentinel_password=sesame":                        {driver.ErrRefused, "NOAUTH"},
		"redis+sentinel://:hunter2@" + s.Primary().Addr() + "/main?sentinel_password=hunter2": {driver.ErrMisconfigured, "no Sentinel"},
		"redis://:sesame@" + one:                                                      {driver.ErrMisconfigured, "use redis+sentinel://"},
		"redis://:sesame@" + one + "/1":                                               {driver.ErrMisconfigured, "use redis+sentinel://"},
		"redis+cluster://:sesame@" + one:                                              {driver.ErrMisconfigured, "no cluster"},
		"redis+cluster://:hunter2@" + s.Primary().Addr():                              {driver.ErrMisconfigured, "no cluster: use redis://"},
		"redis+cluster://:hunter2@" + s.Servers[0].Addr() + "," + s.Servers[1].Addr(): {driver.ErrMisconfigured, "no cluster: use redis://"},
	})
}

func TestAClusterIsFoundByAnyOfItsNodes(t *testing.T) {
	c := redistest.StartCluster(t, redistest.ClusterOptions{Server: redistest.Options{Password: "hunter2"}, WithoutReplicas: true})
	hosts := strings.Join(c.Addrs(), ",")
	check(t, map[string]outcome{
		"redis+cluster://:hunter2@" + hosts:                                      {},
		"redis+cluster://:hunter2@127.0.0.1:1," + c.Addrs()[2]:                   {},
		"redis+cluster://:hunter2@" + c.Addrs()[1] + "/0?prefix=app:":            {},
		"redis://:hunter2@" + c.Addrs()[1]:                                       {},
		"redis://:hunter2@" + c.Addrs()[1] + "/2":                                {driver.ErrMisconfigured, "database"},
		"redis+cluster://:wrong@" + hosts:                                        {driver.ErrRefused, "WRONGPASS"},
		"redis+cluster://127.0.0.1:1,127.0.0.1:2":                                {driver.ErrUnreachable, "dial tcp 127.0.0.1:"},
		"redis+sentinel://:hunter2@" + hosts + "/main?sentinel_password=hunter2": {driver.ErrMisconfigured, "no Sentinel"},
	})
}

func TestTLSIsSpokenAsTheURLSays(t *testing.T) {
	authority := redistest.Certificates(t)
	strict := redistest.Start(t, redistest.Options{TLS: authority, ClientCertificates: true})
	lax := redistest.Start(t, redistest.Options{TLS: authority})
	plain := redistest.Start(t, redistest.Options{})
	ca := "cacert=" + authority.CA()
	client := "&cert=" + authority.Client().Cert + "&key=" + authority.Client().Key
	check(t, map[string]outcome{
		"rediss://" + strict.Addr() + "?" + ca + client:   {},
		"rediss://" + lax.Addr() + "?" + ca:               {},
		"rediss://" + lax.Addr() + "?skip_verify=true":    {},
		"rediss://" + lax.Addr() + "?sni=localhost&" + ca: {},
		"rediss://" + lax.Addr() + "?sni=other&" + ca:     {driver.ErrMisconfigured, "valid for localhost, not other"},
		"rediss://" + lax.Addr():                          {driver.ErrMisconfigured, "unknown authority"},
		"rediss://" + strict.Addr() + "?" + ca:            {nil, "client certificate"},
		"rediss://" + plain.Addr() + "?" + ca:             {driver.ErrUnreachable, "not speak TLS"},
		"redis://" + lax.Addr():                           {driver.ErrUnreachable, "nothing but TLS"},
		"rediss+cluster://" + lax.Addr() + "?" + ca:       {driver.ErrMisconfigured, "no cluster"},
	})
}

func TestASocketAndAnACLUserAreReachedByURL(t *testing.T) {
	socket := redistest.SocketPath(t)
	server := redistest.Start(t, redistest.Options{Args: []string{"--unixsocket", socket}})
	rule := []string{"ACL", "SETUSER", "limited", "on", ">pw/1", "~lock:*", "&lock:*", "+@all"}
	if err := server.Do(rule...).Error(); err != nil {
		t.Fatal(err)
	}
	check(t, map[string]outcome{
		"unix://" + socket:                                         {},
		"unix://limited:pw%2F1@" + socket + "?db=2":                {},
		"redis://limited:pw%2F1@" + server.Addr() + "/15":          {},
		"redis://limited:hunter2@" + server.Addr():                 {driver.ErrRefused, "WRONGPASS"},
		"redis://limited:pw%2F1@" + server.Addr() + "?prefix=app:": {driver.ErrRefused, "NOPERM"},
		"redis://" + server.Addr() + "/16":                         {driver.ErrMisconfigured, "no database of this number"},
		"unix:///nowhere/redis.sock":                               {driver.ErrUnreachable, "no such file"},
	})
}

func TestAWarningNamesTheNodeOfAQuorum(t *testing.T) {
	evicting := redistest.Start(t, redistest.Options{MaxMemory: "100mb", Args: []string{"--maxmemory-policy", "allkeys-lru"}})
	a, b := redistest.Start(t, redistest.Options{}), redistest.Start(t, redistest.Options{})
	warnings := make(chan string, 10)
	url := "quorum+redis://" + a.Addr() + "," + evicting.Addr() + "," + b.Addr() + "?longest_ttl=1s"
	store, closer, err := Store(t.Context(), url, Options{Warn: func(text string) { warnings <- text }})
	if err != nil {
		t.Fatal(err)
	}
	defer closer.Close()
	store.Inspect(t.Context(), "nightly-report")
	if got := <-warnings; !strings.HasPrefix(got, evicting.Addr()+": Redis has maxmemory-policy allkeys-lru") {
		t.Errorf("warned that %q", got)
	}
}

func TestAQuorumOfAnEvenNumberIsRefused(t *testing.T) {
	for _, url := range []string{"quorum+redis://a", "quorum+redis://a,b", "quorum+redis://a,b,c,d"} {
		if _, _, err := Store(t.Context(), url, Options{}); !errors.Is(err, driver.ErrMisconfigured) {
			t.Errorf("%s: %v", url, err)
		}
	}
}
