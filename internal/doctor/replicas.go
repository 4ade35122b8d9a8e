package doctor

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

// lagging is the lag, in seconds, beyond which a replica is far behind: it tells
// of itself every second.
const lagging = 10

// replicas says who has a copy of the locks, for when the server is lost.
func replicas(_ context.Context, r *report, s *server) {
	if _, known := s.info["connected_slaves"]; !known || s.info["role"] != "master" {
		return
	}
	connected := s.number("connected_slaves")
	least, _ := strconv.ParseInt(s.config["min-replicas-to-write"], 10, 64)
	switch {
	case connected < least:
		r.add(Failure, "replicas", fmt.Sprintf("%d connected, min-replicas-to-write %d", connected, least),
			"the server refuses new locks (NOREPLICAS)", "connect the replicas; INFO replication has those that are")
	case connected < int64(s.options.WaitReplicas):
		r.add(Failure, "replicas", fmt.Sprintf("%d connected, wait_replicas=%d", connected, s.options.WaitReplicas),
			"no lock is granted until so many replicas have it", "connect the replicas, or change wait_replicas in the URL")
	case connected == 0:
		r.add(Note, "replicas", "none", "if the server is lost, there are no locks until it is back", "")
		return
	default:
		r.asynchronous(s, connected)
	}
	if connected > 0 && least == 0 && s.config["min-replicas-to-write"] != "" && !s.cluster { // there it stops by itself
		r.add(Warning, "min-replicas", "min-replicas-to-write 0",
			"a primary that is cut off goes on granting locks beside the one that was promoted; with 1 it stops, but also when its last replica is away",
			"CONFIG SET min-replicas-to-write 1")
	}
	lag(r, s)
}

// asynchronous says what a failover may lose.
func (r *report) asynchronous(s *server, connected int64) {
	found := fmt.Sprintf("%d connected", connected)
	if s.options.WaitReplicas > 0 {
		r.ok("replicas", fmt.Sprintf("%s, and a lock waits for %d", found, s.options.WaitReplicas))
		return
	}
	r.add(Note, "replicas", found,
		"a failover may forget the last grants, since replicas get them a moment later; then two hold a lock",
		"put ?wait_replicas=1 in the URL to make that rare, and let the resource check fences")
}

// lag says which replicas are behind.
func lag(r *report, s *server) {
	var behind []string
	for i := 0; ; i++ {
		text, found := s.info["slave"+strconv.Itoa(i)]
		if !found {
			break
		}
		replica := make(map[string]string)
		for _, part := range strings.Split(text, ",") {
			name, value, _ := strings.Cut(part, "=")
			replica[name] = value
		}
		seconds, _ := strconv.Atoi(replica["lag"])
		if replica["state"] != "online" || seconds > lagging {
			behind = append(behind, fmt.Sprintf("%s:%s is %s, lag %ss", replica["ip"], replica["port"], replica["state"], replica["lag"]))
		}
	}
	if len(behind) > 0 {
		r.add(Warning, "replication", strings.Join(behind, "; "), "if it is promoted, locks granted since then are forgotten, and others get them",
			"see the log of the replica, and the network to it")
	}
}
