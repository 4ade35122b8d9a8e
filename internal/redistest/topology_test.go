package redistest

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/rueidis"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestSentinelsPromoteAReplicaAndTheOldPrimaryFollowsIt(t *testing.T) {
	s := StartSentinels(t, SentinelOptions{Server: Options{Password: "data"}, Password: "watch"})
	first := s.Primary()
	if first != s.Servers[0] {
		t.Fatalf("the primary is %v, want the first", first)
	}
	must(t, first.Do("SET", "k", "v").Error())
	if n, err := first.Do("WAIT", "2", "5000").AsInt64(); n != 2 || err != nil {
		t.Fatalf("%d replicas have it, %v", n, err)
	}
	first.Kill()
	second, err := s.WaitFailover(first)
	must(t, err)
	if got, err := second.Do("GET", "k").ToString(); got != "v" {
		t.Errorf("after the failover: %q, %v", got, err)
	}
	must(t, first.Restart(false))
	must(t, s.WaitSettled())
	for _, sentinel := range s.Sentinels {
		if roles := reported(t, sentinel); !slices.Equal(roles, []string{"slave", "slave"}) {
			t.Errorf("a sentinel has seen the replicas be %q", roles)
		}
	}
	if err := first.Do("SET", "k", "w").Error(); err == nil || !strings.HasPrefix(err.Error(), "READONLY") {
		t.Errorf("the old primary answers %v", err)
	}
	third, err := s.Failover()
	must(t, err)
	if third == second {
		t.Error("the primary is the same")
	}
}

// reported returns the roles that a sentinel has last seen the replicas have.
func reported(t *testing.T, sentinel *Process) (roles []string) {
	t.Helper()
	replicas, err := sentinel.Do("SENTINEL", "REPLICAS", MasterSet).ToArray()
	must(t, err)
	for _, one := range replicas {
		replica, err := one.AsStrMap()
		must(t, err)
		roles = append(roles, replica["role-reported"])
	}
	return roles
}

func TestANewPrimaryIsNotTakenToBeDownSinceTheOldOneRefused(t *testing.T) {
	s := StartSentinels(t, SentinelOptions{})
	old, promoted, sentinel := s.Servers[0], s.Servers[1], s.Sentinels[0]
	others, err := sentinel.Do("SENTINEL", "SENTINELS", MasterSet).ToArray()
	must(t, err)
	other, err := others[0].AsStrMap()
	must(t, err)
	must(t, promoted.Do("REPLICAOF", "NO", "ONE").Error())
	for _, process := range slices.Concat(s.Sentinels[1:], s.Servers[2:]) {
		process.Kill() // so that the sentinel alone looks for the old primary, and can't replace it
	}
	old.Kill()
	refuseOnce(t, old.Addr())

	hello := fmt.Sprintf("127.0.0.1,%s,%s,1,%s,127.0.0.1,%d,1", other["port"], other["runid"], MasterSet, promoted.Port())
	must(t, sentinel.Do("PUBLISH", "__sentinel__:hello", hello).Error())
	must(t, wait("the sentinel has heard from the new primary", func() bool {
		known, err := sentinel.Do("SENTINEL", "MASTER", MasterSet).AsStrMap()
		return err == nil && known["port"] == strconv.Itoa(promoted.Port()) && known["runid"] != ""
	}))
	if strings.Contains(sentinel.log(), fmt.Sprintf("+sdown master %s 127.0.0.1 %d", MasterSet, promoted.Port())) {
		t.Errorf("the new primary was taken to be down:\n%s", sentinel.log())
	}
}

func TestServersAreSettledWhenASentinelReachesAReplicaThatWasDown(t *testing.T) {
	s := StartSentinels(t, SentinelOptions{})
	replica, sentinel := s.Servers[1], s.Sentinels[0]
	replica.Kill()
	must(t, wait("the sentinel takes the replica to be down", func() bool {
		return strings.Contains(sentinel.log(), fmt.Sprintf("+sdown slave 127.0.0.1:%d", replica.Port()))
	}))
	must(t, replica.Restart(false))
	must(t, s.WaitSettled())
	if !strings.Contains(sentinel.log(), fmt.Sprintf("-sdown slave 127.0.0.1:%d", replica.Port())) {
		t.Errorf("the sentinel takes the replica to be down yet:\n%s", sentinel.log())
	}
}

// refuseOnce returns when it has closed a connection that somebody made to an
// address where nobody listens.
func refuseOnce(t *testing.T, address string) {
	t.Helper()
	listener, err := net.Listen("tcp", address)
	must(t, err)
	defer listener.Close()
	connection, err := listener.Accept()
	must(t, err)
	connection.Close()
}

func TestAClusterMovesASlotAndSurvivesTheEndOfANode(t *testing.T) {
	c := StartCluster(t, ClusterOptions{})
	slot, err := c.Slot("k")
	must(t, err)
	from := c.Owner(slot)
	must(t, from.Do("SET", "k", "v").Error())

	m, err := c.Migrate(slot, c.Other(from))
	must(t, err)
	if keys, err := m.Keys(); err != nil || !slices.Equal(keys, []string{"k"}) {
		t.Fatalf("keys %q, %v", keys, err)
	}
	must(t, m.Move("k"))
	if err, _ := rueidis.IsRedisErr(from.Do("GET", "k").Error()); err == nil || !strings.HasPrefix(err.Error(), "ASK") {
		t.Errorf("the source answers %v", err)
	}
	must(t, m.Finish())
	must(t, c.WaitOK())
	if owner := c.Owner(slot); owner != m.To {
		t.Fatal("the slot has another owner")
	}

	replica := c.Replica(m.To)
	must(t, c.Failover(replica))
	must(t, c.WaitOK())
	if c.Owner(slot) != replica || c.Replica(replica) != m.To {
		t.Error("the replica has not taken the place of its primary")
	}

	replica.Kill()
	owner, err := c.WaitFailover(slot, replica)
	must(t, err)
	if got, err := owner.Do("GET", "k").ToString(); got != "v" {
		t.Errorf("after the failover: %q, %v", got, err)
	}
	must(t, replica.Restart(false))
	must(t, c.WaitOK())
	if c.Replica(owner) != replica {
		t.Error("the node that came back does not follow its successor")
	}
}

func TestAServerThatSpeaksTLSAsksForTheCertificateOfItsAuthority(t *testing.T) {
	authority, stranger := Certificates(t), Certificates(t)
	server := Start(t, Options{TLS: authority, ClientCertificates: true})
	must(t, server.Do("PING").Error())
	wrong := stranger.Config(true)
	wrong.RootCAs = authority.Config(false).RootCAs
	for what, options := range map[string]rueidis.ClientOption{
		"without TLS":         {},
		"without certificate": {TLSConfig: authority.Config(false)},
		"a stranger's":        {TLSConfig: wrong},
		"a stranger's server": {TLSConfig: stranger.Config(true)},
	} {
		options.InitAddress, options.DisableRetry = []string{server.Addr()}, true
		client, err := rueidis.NewClient(options)
		if err == nil {
			t.Errorf("%s: connected", what)
			client.Close()
		}
	}
}

func TestTopologiesSpeakTLS(t *testing.T) {
	authority := Certificates(t)
	s := StartSentinels(t, SentinelOptions{Server: Options{TLS: authority}})
	must(t, s.Primary().Do("SET", "k", "v").Error())
	s.Kill()
	c := StartCluster(t, ClusterOptions{Server: Options{TLS: authority, Password: "pw"}})
	must(t, c.Owner(0).Do("SET", "{06S}", "v").Error())
}
