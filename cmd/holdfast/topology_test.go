package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/holdfastlock/holdfast/internal/redistest"
)

// TestScriptsAboutTopologies runs a script for each way in which Redis can be
// set up; the variables say where the servers are.
func TestScriptsAboutTopologies(t *testing.T) {
	const password, sentinelPassword = "hunter2", "sesame"
	server := redistest.Options{Password: password}
	sentinels := redistest.StartSentinels(t, redistest.SentinelOptions{Server: server, Password: sentinelPassword})
	cluster := redistest.StartCluster(t, redistest.ClusterOptions{Server: server, WithoutReplicas: true})
	authority, socket := redistest.Certificates(t), redistest.SocketPath(t)
	secure := redistest.Start(t, redistest.Options{TLS: authority, ClientCertificates: true})
	plain := redistest.Start(t, redistest.Options{Password: password, Args: []string{"--unixsocket", socket}})
	nodes := []string{password, password, sentinelPassword}
	for i, own := range nodes {
		nodes[i] = redistest.Start(t, redistest.Options{Password: own}).Addr()
	}
	testscript.Run(t, parameters("testdata/script/topology", func(env *testscript.Env) string {
		for name, value := range map[string]string{
			"SENTINELS": strings.Join(sentinels.Addrs(), ","),
			"SENTINEL":  sentinels.Addrs()[0],
			"PRIMARY":   sentinels.Primary().Addr(),
			"CLUSTER":   strings.Join(cluster.Addrs(), ","),
			"NODE":      cluster.Addrs()[1],
			"NODE1":     nodes[0], "NODE2": nodes[1], "NODE3": nodes[2],
			"TLS":    secure.Addr(),
			"CA":     authority.CA(),
			"CERT":   authority.Client().Cert,
			"KEY":    authority.Client().Key,
			"ADDR":   plain.Addr(),
			"SOCKET": socket,
		} {
			env.Setenv(name, value)
		}
		return ""
	}))
}

func TestScriptsOnSentinel(t *testing.T) {
	sentinels := redistest.StartSentinels(t, redistest.SentinelOptions{})
	onServers(t, "redis+sentinel://"+strings.Join(sentinels.Addrs(), ",")+"/"+redistest.MasterSet)
}

func TestScriptsOnACluster(t *testing.T) {
	cluster := redistest.StartCluster(t, redistest.ClusterOptions{})
	onServers(t, "redis+cluster://"+strings.Join(cluster.Addrs(), ","))
}

// onServers runs the scripts for every store, at the same time and each under a
// prefix of its own.
func onServers(t *testing.T, url string) {
	testscript.Run(t, parameters("testdata/script/store", func(env *testscript.Env) string {
		return url + "?prefix=" + filepath.Base(env.WorkDir) + ":"
	}))
}
