package redisstore

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfastlock/holdfast"
	"github.com/holdfastlock/holdfast/driver"
	"github.com/holdfastlock/holdfast/internal/redistest"
)

// The ways to a server other than a plain address.

func TestAServerWhoseCertificateFitsIsUsedAndAnotherIsRefused(t *testing.T) {
	authority, stranger := redistest.Certificates(t), redistest.Certificates(t)
	loose := redistest.Start(t, redistest.Options{TLS: authority})
	strict := redistest.Start(t, redistest.Options{TLS: authority, ClientCertificates: true})
	plain := redistest.Start(t, redistest.Options{})
	elsewhere := authority.Config(false)
	elsewhere.ServerName = "redis.example"
	older := authority.Config(false)
	older.MaxVersion = tls.VersionTLS12
	for name, c := range map[string]struct {
		server *redistest.Server
		config *tls.Config
		kind   error // none if it works
		hint   string
	}{
		"trusted":                       {loose, authority.Config(false), nil, ""},
		"with a certificate":            {strict, authority.Config(true), nil, ""},
		"by an unknown CA":              {loose, stranger.Config(false), driver.ErrMisconfigured, "check the CA"},
		"of another name":               {loose, elsewhere, driver.ErrMisconfigured, "check the CA"},
		"without a certificate":         {strict, authority.Config(false), driver.ErrUnreachable, "client certificate"},
		"without a certificate, TLS1.2": {strict, older, driver.ErrRefused, "client certificate"},
		"with a stranger's certificate": {strict, strangersCertificate(authority, stranger), driver.ErrUnreachable, "client certificate"},
		"TLS to a plain server":         {plain, authority.Config(false), driver.ErrUnreachable, "may not speak TLS"},
		"plain to a server of TLS":      {loose, nil, driver.ErrUnreachable, "nothing but TLS"},
	} {
		store := openWith(t, Options{Client: rueidis.ClientOption{InitAddress: []string{c.server.Addr()}, TLSConfig: c.config}})
		_, err := store.Acquire(within(t), request(name))
		switch {
		case c.kind == nil && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.kind != nil:
			wantKind(t, err, c.kind)
			if err == nil || !strings.Contains(err.Error(), c.hint) {
				t.Errorf("%s: %v, want a word of %q", name, err, c.hint)
			}
		}
	}
}

// strangersCertificate trusts the one and shows a certificate of the other.
func strangersCertificate(trusted, stranger *redistest.Authority) *tls.Config {
	config := trusted.Config(false)
	config.Certificates = stranger.Config(true).Certificates
	return config
}

func TestSentinelsAndClustersAreReachedByTLS(t *testing.T) {
	authority := redistest.Certificates(t)
	server := redistest.Options{TLS: authority, ClientCertificates: true, Password: "pw"}
	s := redistest.StartSentinels(t, redistest.SentinelOptions{Server: server})
	client := watchedBy(s)
	client.Password, client.TLSConfig, client.Sentinel.TLSConfig = "pw", authority.Config(true), authority.Config(true)
	acquire(t, openWith(t, Options{Client: client}), request("x"))
	s.Kill()

	c := redistest.StartCluster(t, redistest.ClusterOptions{Server: server, WithoutReplicas: true})
	store := openWith(t, Options{Client: rueidis.ClientOption{
		InitAddress: c.Addrs(), Password: "pw", TLSConfig: authority.Config(true),
	}})
	for _, extensions := range spreadOver(t, c, store, time.Minute) {
		for _, result := range store.Extend(within(t), extensions) {
			if result.Err != nil || result.Answer != driver.Mine {
				t.Errorf("extend: %v, %v", result.Answer, result.Err)
			}
		}
	}
}

func TestASocketIsAWayToAServer(t *testing.T) {
	path := redistest.SocketPath(t)
	server := redistest.Start(t, redistest.Options{Args: []string{"--unixsocket", path}})
	store := openWith(t, Options{Client: rueidis.ClientOption{
		InitAddress: []string{path},
		DialCtxFn: func(ctx context.Context, path string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
			return d.DialContext(ctx, "unix", path)
		},
	}})
	lease := hold(t, lockerOn(t, store, holdfast.Config{}))
	if got := do(t, server, "GET", "lock:report"); got != lease.Token() {
		t.Errorf("the server has %q", got)
	}
	must(t, lease.Release(within(t)))
}

func TestTheDatabaseIsTheOneAskedFor(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	do(t, server, "ACL", "SETUSER", "app", "on", ">pw", "~lock:*", "&lock:*", "+@all")
	client := rueidis.ClientOption{InitAddress: []string{server.Addr()}, Username: "app", Password: "pw", SelectDB: 3}
	l := lockerOn(t, openWith(t, Options{Client: client}), holdfast.Config{})
	lease := hold(t, l)
	if n := number(t, server, "EXISTS", "lock:report"); n != 0 {
		t.Error("the lock is in database 0")
	}
	other := hold(t, locker(t, server.Addr(), holdfast.Config{})) // of database 0
	must(t, other.Release(within(t)))
	do(t, server, "SELECT", "3")
	if got := do(t, server, "GET", "lock:report"); got != lease.Token() {
		t.Errorf("database 3 has %q", got)
	}
	must(t, lease.Release(within(t)))

	client.SelectDB = 99
	_, err := openWith(t, Options{Client: client}).Acquire(within(t), request("x"))
	wantKind(t, err, driver.ErrMisconfigured)
}

func TestAServerThatIsLoadingIsUnreachableUntilItIsDone(t *testing.T) {
	server := redistest.Start(t, redistest.Options{AppendOnly: true, Args: []string{
		"--key-load-delay", "100", // microseconds; it answers after each 1024
	}})
	l := locker(t, server.Addr(), holdfast.Config{TTL: time.Minute})
	lease := hold(t, l)
	do(t, server, "EVAL", "for i = 1, 15000 do redis.call('SET', 'key' .. i, i) end return ''", "0")
	restarted := make(chan error, 1)
	go func() { restarted <- server.Process.Restart(true) }()
	store := open(t, server.Addr())
	eventually(t, "it says that it is loading", func() bool {
		_, err := store.Acquire(within(t), request("other"))
		if err != nil && !errors.Is(err, driver.ErrUnreachable) {
			t.Fatalf("the error is %v", err)
		}
		return err != nil && strings.Contains(err.Error(), "LOADING")
	})
	if err := confirmed(t, lease); err != nil {
		t.Errorf("the lease: %v", err)
	}
	must(t, <-restarted)
}
