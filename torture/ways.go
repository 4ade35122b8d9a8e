package main

import (
	"github.com/holdfastlock/holdfast/internal/redistest"
)

// ways are the proxies between each worker and each of some servers.
type ways struct {
	servers  []*redistest.Process
	byWorker [][]*redistest.Proxy // in the order of the servers
}

// openWays opens them. What was opened is to be closed also after an error.
func openWays(workers int, servers []*redistest.Process) (w ways, err error) {
	w.servers = servers
	for n := range workers {
		w.byWorker = append(w.byWorker, nil)
		for _, server := range servers {
			proxy, err := redistest.OpenProxy(server.Addr())
			if err != nil {
				return w, err
			}
			w.byWorker[n] = append(w.byWorker[n], proxy)
		}
	}
	return w, nil
}

// proxies are those of worker n.
func (w ways) proxies(n int) []*redistest.Proxy { return w.byWorker[n-1] }

// networks are the addresses of worker n's proxies, by those of the servers.
func (w ways) networks(n int) map[string]string {
	networks := make(map[string]string)
	for i, proxy := range w.proxies(n) {
		networks[w.servers[i].Addr()] = proxy.Addr()
	}
	return networks
}

// to are the proxies that lead to a server.
func (w ways) to(server *redistest.Process) (all []*redistest.Proxy) {
	for i, s := range w.servers {
		for _, proxies := range w.byWorker {
			if s == server {
				all = append(all, proxies[i])
			}
		}
	}
	return all
}

func (w ways) close() {
	for _, proxies := range w.byWorker {
		for _, proxy := range proxies {
			proxy.Close()
		}
	}
}
