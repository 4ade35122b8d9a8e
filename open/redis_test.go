package open

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/holdfastlock/holdfast/driver"
)

func TestAURLSaysWhereItsServerIs(t *testing.T) {
	options, err := RedisOptions("redis://me:p%40ss@db.example:6380/3?prefix=app:")
	if err != nil || len(options) != 1 {
		t.Fatal(options, err)
	}
	got := options[0].Client
	if got.InitAddress[0] != "db.example:6380" || got.Username != "me" || got.Password != "p@ss" || got.SelectDB != 3 || options[0].Prefix != "app:" {
		t.Errorf("got %v %q %q db %d prefix %q", got.InitAddress, got.Username, got.Password, got.SelectDB, options[0].Prefix)
	}
	options, err = RedisOptions("redis://host?no_eviction=required&wait_replicas=2&wait_fsync=true&wait_timeout=1s")
	if err != nil || len(options) != 1 {
		t.Fatal(options, err)
	}
	safe := options[0]
	if !safe.RequireNoEviction || safe.WaitReplicas != 2 || !safe.WaitFsync || safe.WaitTimeout != time.Second {
		t.Errorf("got %+v", safe)
	}
}

func TestAURLOfManyServersSaysWhereTheyAre(t *testing.T) {
	for url, want := range map[string]string{
		"redis+sentinel://me:a%2Cb@s1,[::1]:1/main/2?sentinel_username=s&sentinel_password=p%26w": "[s1:26379 [::1]:1] me a,b 2 main s p&w",
		"redis+sentinel://s1/main?db=3":        "[s1:26379]   3 main  ",
		"redis+cluster://me:secret@n1,n2:7000": "[n1:6379 n2:7000] me secret 0   ",
		"redis://:secret@":                     "[localhost:6379]  secret 0   ",
		"unix://me:secret@/run/a%20b?db=4":     "[/run/a b] me secret 4   ",
	} {
		options, err := RedisOptions(url)
		if err != nil || len(options) != 1 {
			t.Errorf("%s: %d options, %v", url, len(options), err)
			continue
		}
		c := options[0].Client
		got := fmt.Sprint(c.InitAddress, " ", c.Username, " ", c.Password, " ", c.SelectDB, " ", c.Sentinel.MasterSet, " ", c.Sentinel.Username, " ", c.Sentinel.Password)
		if got != want {
			t.Errorf("%s: %q, want %q", url, got, want)
		}
	}
}

func TestAnSAfterRedisIsTLSForSentinelsToo(t *testing.T) {
	for url, secure := range map[string]bool{
		"redis+sentinel://s/main": false, "rediss+sentinel://s/main?sni=x": true,
		"redis+cluster://n": false, "rediss+cluster://n?sni=x": true,
		"quorum+redis://a,b,c": false, "quorum+rediss://a,b,c?sni=x": true,
	} {
		options, err := RedisOptions(url)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range options {
			if config := o.Client.TLSConfig; (config != nil) != secure || secure && config.ServerName != "x" {
				t.Errorf("%s: TLS %+v", url, config)
			}
			if o.Client.Sentinel.MasterSet != "" && (o.Client.Sentinel.TLSConfig != nil) != secure {
				t.Errorf("%s: of the sentinels %+v", url, o.Client.Sentinel.TLSConfig)
			}
		}
	}
}

func TestTheNodesOfAQuorumShareWhatIsNotTheirOwn(t *testing.T) {
	for url, want := range map[string]string{
		"quorum+redis://me:p@a,b:1,[::1]/2?prefix=app:":                   "a:6379 me p 2 app: 1m0s; b:1 me p 2 app: 1m0s; [::1]:6379 me p 2 app: 1m0s; ",
		"quorum+redis://x:1@a,y:2@b,:3@c?longest_ttl=90s&wait_fsync=true": "a:6379 x 1 0  1m30s; b:6379 y 2 0  1m30s; c:6379  3 0  1m30s; ",
	} {
		nodes, err := RedisOptions(url)
		if err != nil {
			t.Errorf("%s: %v", url, err)
		}
		got := ""
		for _, n := range nodes {
			c := n.Client
			got += fmt.Sprint(c.InitAddress[0], " ", c.Username, " ", c.Password, " ", c.SelectDB, " ", n.Prefix, " ", n.AbstainAfterRestart, "; ")
			if c.MaxFlushDelay != flushDelay {
				t.Errorf("%s: a flush delay of %v", url, c.MaxFlushDelay)
			}
		}
		if got != want {
			t.Errorf("%s: %q, want %q", url, got, want)
		}
	}
	where, err := parse("quorum+redis://a,b,c?node_timeout=20ms")
	if err != nil || where.quorum.NodeTimeout != 20*time.Millisecond {
		t.Errorf("got %+v, %v", where.quorum, err)
	}
}

func TestOtherStoresHaveNoOptionsOfRedis(t *testing.T) {
	for _, url := range []string{"local", "sqlite:///a.db", "postgres://host/db"} {
		if options, err := RedisOptions(url); options != nil || err != nil {
			t.Errorf("%s: %v, %v", url, options, err)
		}
	}
	if _, err := RedisOptions("redis://host/x"); !errors.Is(err, driver.ErrMisconfigured) {
		t.Errorf("a bad URL: %v", err)
	}
}
