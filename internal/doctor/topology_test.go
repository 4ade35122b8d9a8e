package doctor

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfastlock/holdfast/driver"
	"github.com/holdfastlock/holdfast/internal/redistest"
)

func TestSentinelsAreExaminedAndLeftAsTheyWere(t *testing.T) {
	options := fit
	options.Args = []string{"--enable-debug-command", "yes"}
	group := redistest.StartSentinels(t, redistest.SentinelOptions{Server: options})
	url := "redis+sentinel://" + strings.Join(group.Addrs(), ",") + "/" + redistest.MasterSet
	unchanged := func(fn func()) {
		before := do(t, group.Sentinels[0], "SENTINEL", "GET-MASTER-ADDR-BY-NAME", redistest.MasterSet)
		fn()
		if after := do(t, group.Sentinels[0], "SENTINEL", "GET-MASTER-ADDR-BY-NAME", redistest.MasterSet); after != before {
			t.Errorf("the primary was %s, and is %s", before, after)
		}
	}
	unchanged(func() {
		all := examine(t, url)
		for _, check := range []string{"sentinels", "agreement", "sentinel-quorum", "standby", "failover-time", "role"} {
			all.want(t, OK, check)
		}
		all.want(t, OK, "agreement", group.Primary().Addr())
		all.want(t, OK, "role", group.Primary().Addr())
	})
	all, err := tryExamine(t, url, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	all.want(t, Warning, "failover-time", "down-after-milliseconds", "SENTINEL SET "+redistest.MasterSet)
	examine(t, "redis+sentinel://"+group.Addrs()[1]+"/"+redistest.MasterSet).want(t, Note, "named", "1 of 3")

	_, err = tryExamine(t, "redis+sentinel://"+group.Addrs()[0]+"/other", time.Minute)
	if !errors.Is(err, driver.ErrMisconfigured) || !strings.Contains(err.Error(), `"other"`) {
		t.Errorf("got %v", err)
	}
	group.Sentinels[2].Kill()
	examine(t, url).want(t, Warning, "sentinels", "2 of 3", group.Sentinels[2].Addr())
}

func TestAClusterIsExaminedAndLeftAsItWas(t *testing.T) {
	options := fit
	options.Args = []string{"--enable-debug-command", "yes"}
	group := redistest.StartCluster(t, redistest.ClusterOptions{Server: options})
	url := "redis+cluster://" + group.Addrs()[0] + "," + group.Addrs()[1]
	before := make([][]string, 3)
	for i, node := range group.Nodes[:3] {
		before[i] = state(t, node)
	}
	all := examine(t, url)
	all.want(t, OK, "cluster", "state ok", "6 servers, 3 primaries")
	all.want(t, OK, "slots", "all 16384")
	all.want(t, OK, "failover")
	all.want(t, OK, "failover-time")
	all.want(t, OK, "rights", "all 3 servers")
	all.want(t, OK, "sharded-pubsub", "all 3 servers")
	for i, node := range group.Nodes[:3] {
		all.want(t, OK, "round-trip", "")
		for j, after := range state(t, node) {
			if after != before[i][j] {
				t.Errorf("a node was changed: %s is now %s", before[i][j], after)
			}
		}
	}
	for _, node := range group.Nodes[:3] {
		do(t, node, "ACL", "SETUSER", "limited", "on", ">pw", "~lock:*", "resetchannels", "+@all", "-spublish", "-ssubscribe")
	}
	all = examine(t, "redis+cluster://limited:pw@"+group.Addrs()[0])
	all.want(t, Failure, "rights", "all 3 servers", "ACL SETUSER limited +spublish +ssubscribe &lock:*")
	all.want(t, Warning, "sharded-pubsub", "ssubscribe", "all 3 servers")

	for _, node := range group.Nodes[:3] {
		do(t, node, "ACL", "SETUSER", "limited", "+@all", "-info", "&lock:*")
	}
	examine(t, "redis+cluster://limited:pw@"+group.Addrs()[0]).want(t, OK, "sharded-pubsub", "all 3 servers")

	do(t, group.Nodes[3], "CLUSTER", "RESET")
	until(t, func() bool { return strings.Contains(examine(t, url).String(), "no replica of") })
	examine(t, url).want(t, Warning, "failover", "no replica of "+group.Nodes[0].Addr())
}

func TestServersWithoutAClusterAreNoCluster(t *testing.T) {
	a, b := start(t, fit), start(t, fit)
	examine(t, "redis+cluster://"+a.Addr()+","+b.Addr()).want(t, Failure, "cluster", "belongs to no cluster")
}

func TestTheSlotOfAKeyIsThatOfTheServer(t *testing.T) {
	for key, slot := range map[string]int64{"123456789": 0x31c3 % slots, "lock:~d:{lock:x}": slotOf("lock:x"), "foo": 12182} {
		if got := slotOf(key); got != slot {
			t.Errorf("%s: %d, want %d", key, got, slot)
		}
	}
}

func TestAQuorumIsExaminedServerByServer(t *testing.T) {
	a, b, c := start(t, fit), start(t, fit), start(t, redistest.Options{})
	all := examine(t, "quorum+redis://"+a.Addr()+","+b.Addr()+","+c.Addr())
	all.want(t, OK, "quorum", "3 of 3")
	all.want(t, OK, "independent")
	all.want(t, OK, "clocks", "within")
	all.want(t, OK, "rights", "all 3 servers")
	all.want(t, OK, "persistence", "always", a.Addr()+", "+b.Addr())
	all.want(t, Warning, "persistence", "no snapshots", c.Addr())

	all = examine(t, "quorum+redis://"+a.Addr()+","+b.Addr()+",localhost:"+strings.Split(a.Addr(), ":")[1])
	all.want(t, Failure, "independent", "the same server")

	c.Kill()
	all = examineSoon(t, "quorum+redis://"+a.Addr()+","+b.Addr()+","+c.Addr())
	all.want(t, Warning, "quorum", "2 of 3")
	all.want(t, Warning, "answer", c.Addr())
	b.Kill()
	examineSoon(t, "quorum+redis://"+a.Addr()+","+b.Addr()+","+c.Addr()).want(t, Failure, "quorum", "1 of 3")
}

// examineSoon does not wait for servers that are known to be down.
func examineSoon(t *testing.T, url string) findings {
	t.Helper()
	var all findings
	err := Examine(t.Context(), url, Options{TTL: time.Minute, ConnectTimeout: 300 * time.Millisecond, Found: func(f Finding) { all = append(all, f) }})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestAccessIsJudgedByTheAddress(t *testing.T) {
	authority := redistest.Certificates(t)
	secure := start(t, redistest.Options{TLS: authority})
	examine(t, "rediss://"+secure.Addr()+"?cacert="+authority.CA()).want(t, OK, "access")
	for _, c := range []struct {
		address, password string
		config            map[string]string
		severity          Severity
	}{
		{"/run/redis.sock", "", nil, OK},
		{"localhost:6379", "", nil, OK},
		{"127.0.0.1:6379", "", map[string]string{"protected-mode": "no", "bind": "127.0.0.1 -::1"}, OK},
		{"127.0.0.1:6379", "", map[string]string{"protected-mode": "no", "bind": "* -::*"}, Warning},
		{"127.0.0.1:6379", "", map[string]string{"protected-mode": "yes", "bind": ""}, OK},
		{"db1:6379", "", nil, Warning},
		{"10.0.0.7:6379", "secret", nil, Note},
	} {
		var all findings
		s := &server{address: c.address, config: c.config}
		s.options.Client.Password = c.password
		access(t.Context(), &report{Options: Options{Found: func(f Finding) { all = append(all, f) }}}, s)
		all.want(t, c.severity, "access")
	}
}
