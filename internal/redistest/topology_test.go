package redistest

import (
	"slices"
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
	if err := first.Do("SET", "k", "w").Error(); err == nil || !strings.HasPrefix(err.Error(), "READONLY") {
		t.Errorf("the old primary answers %v", err)
	}
	third, err := s.Failover()
	must(t, err)
	if third == second {
		t.Error("the primary is the same")
	}
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
