package doctor

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfastlock/holdfast/internal/redisslot"
)

// slots is how many a cluster has.
const slots = 16384

// shard is a part of a cluster, by CLUSTER SLOTS.
type shard struct {
	first, last int64 // one of its ranges of slots
	primary     string
	id          string // of the primary in the cluster
}

// examineCluster examines the cluster that a server belongs to, and each of its
// primaries.
func examineCluster(ctx context.Context, r *report, s *server) error {
	shards, err := s.shards(ctx)
	if err != nil {
		if s.lost != nil {
			return s.lost
		}
		r.add(Failure, "cluster", "CLUSTER SLOTS: "+oneLine(err), "without it nobody finds the server that has a lock", s.allow("+cluster|slots", "+cluster|shards", "+cluster|nodes"))
		return nil
	}
	health(ctx, r, s)
	coverage(r, s, shards)
	failovers(ctx, r, s, shards)
	nodeTimeout(r, s)
	return examineShards(ctx, r, s, shards)
}

// shards asks for the primaries, one entry for each range of slots.
func (s *server) shards(ctx context.Context) ([]shard, error) {
	reply, err := s.do(ctx, "CLUSTER", "SLOTS").ToArray()
	if err != nil {
		return nil, err
	}
	var all []shard
	for _, entry := range reply {
		parts, err := entry.ToArray()
		if err != nil || len(parts) < 3 {
			return nil, fmt.Errorf("an answer of another form: %w", err)
		}
		var one shard
		one.first, _ = parts[0].AsInt64()
		one.last, _ = parts[1].AsInt64()
		one.primary, one.id = s.nodeOf(parts[2])
		all = append(all, one)
	}
	return all, nil
}

// nodeOf reads a server of CLUSTER SLOTS: its address and its id. One without a
// host is that which was asked.
func (s *server) nodeOf(node rueidis.RedisMessage) (address, id string) {
	parts, err := node.ToArray()
	if err != nil || len(parts) < 3 {
		return s.address, ""
	}
	host, _ := parts[0].ToString()
	port, _ := parts[1].AsInt64()
	id, _ = parts[2].ToString()
	if host == "" || host == "?" {
		host, _, _ = net.SplitHostPort(s.address)
	}
	return net.JoinHostPort(host, strconv.FormatInt(port, 10)), id
}

// health says what the cluster says of itself.
func health(ctx context.Context, r *report, s *server) {
	text, err := s.do(ctx, "CLUSTER", "INFO").ToString()
	if err != nil {
		fix := ""
		if isNoPerm(err) {
			fix = s.allow("+cluster|info")
		}
		r.unseen("cluster", err, "the state of the cluster", fix)
		return
	}
	info := fields(text)
	found := fmt.Sprintf("state %s, %s servers, %s primaries", info["cluster_state"], info["cluster_known_nodes"], info["cluster_size"])
	switch failed := info["cluster_slots_fail"]; {
	case info["cluster_state"] != "ok":
		r.add(Failure, "cluster", found, "a cluster that is not ok refuses commands (CLUSTERDOWN)", "redis-cli --cluster check "+s.address)
	case failed != "0" || info["cluster_slots_pfail"] != "0":
		r.add(Warning, "cluster", found+", "+failed+" slots failed, "+info["cluster_slots_pfail"]+" perhaps", "locks in these slots can't be had", "redis-cli --cluster check "+s.address)
	default:
		r.ok("cluster", found)
	}
}

// coverage says which locks can't be had.
func coverage(r *report, s *server, shards []shard) {
	served := int64(0)
	for _, one := range shards {
		served += one.last - one.first + 1
	}
	full := s.config["cluster-require-full-coverage"] == "yes"
	switch {
	case served < slots && full:
		r.add(Failure, "slots", fmt.Sprintf("%d of %d served", served, slots), "with cluster-require-full-coverage yes, no lock can be had", "redis-cli --cluster fix "+s.address)
	case served < slots:
		r.add(Failure, "slots", fmt.Sprintf("%d of %d served", served, slots), "locks in the others can't be had", "redis-cli --cluster fix "+s.address)
	default:
		r.ok("slots", fmt.Sprintf("all %d served", slots))
	}
	if full {
		r.add(Note, "full-coverage", "cluster-require-full-coverage yes", "if one primary and its replicas are lost, the locks of all others can't be had either",
			"CONFIG SET cluster-require-full-coverage no")
	}
}

// failovers says which primaries have nobody to take over.
func failovers(ctx context.Context, r *report, s *server, shards []shard) {
	text, err := s.do(ctx, "CLUSTER", "NODES").ToString()
	if err != nil {
		r.unseen("failover", err, "the replicas", s.allow("+cluster|nodes"))
		return
	}
	followed := make(map[string]bool) // by id
	for line := range strings.Lines(text) {
		// id address flags primary …
		if words := strings.Fields(line); len(words) > 3 && !strings.Contains(words[2], "fail") {
			followed[words[3]] = true
		}
	}
	var alone []string
	for _, one := range shards {
		if !followed[one.id] {
			alone = appendOnce(alone, one.primary)
		}
	}
	if len(alone) > 0 {
		r.add(Warning, "failover", "no replica of "+strings.Join(alone, ", "), "if it is lost, locks in its slots can't be had until it is back",
			"redis-cli --cluster add-node HOST:PORT "+s.address+" --cluster-slave")
		return
	}
	r.ok("failover", "every primary has a replica")
}

// nodeTimeout compares how long a failover takes with how long a lease lasts.
func nodeTimeout(r *report, s *server) {
	ms, err := strconv.ParseInt(s.config["cluster-node-timeout"], 10, 64)
	if err == nil {
		judgeFailover(r, "cluster-node-timeout", time.Duration(ms)*time.Millisecond, "CONFIG SET cluster-node-timeout %d")
	}
}

// judgeFailover judges the time after which a primary that does not answer is
// replaced. Until then nothing can be extended; a lease that was extended just
// before must outlive that, and one that was due has two thirds of its TTL left.
func judgeFailover(r *report, setting string, silent time.Duration, fix string) {
	found := setting + " " + short(silent)
	if silent > r.TTL*2/3 {
		r.add(Warning, "failover-time", found, fmt.Sprintf("when a primary fails, a lease of %s ends before another has taken over", r.TTL),
			fmt.Sprintf(fix, (r.TTL/3).Milliseconds())+", or a longer --ttl")
		return
	}
	r.ok("failover-time", fmt.Sprintf("%s, well within a lease of %s", found, r.TTL))
}

// examineShards examines each primary.
func examineShards(ctx context.Context, r *report, from *server, shards []shard) error {
	var all merged
	defer func() { all.tell(r.Found) }()
	done := make(map[string]bool)
	for _, one := range shards {
		if done[one.primary] {
			continue
		}
		done[one.primary] = true
		own := all.report(r.Options, one.primary)
		s, err := connect(ctx, own, from.options.Client, from.options, one.primary)
		if err != nil {
			own.add(Failure, "answer", "none: "+oneLine(err), "locks in its slots can't be had", "see whether it runs, and whether this machine reaches that address")
			continue
		}
		s.look(ctx)
		s.key = keyIn(s.options.Prefix, shards, one.primary)
		err = s.examine(ctx, own)
		s.client.Close()
		if err != nil {
			own.add(Failure, "answer", "none any more: "+oneLine(err), "locks in its slots can't be had", "see whether it runs")
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

// keyIn returns a key of ours that does not exist, in a slot of the primary; if
// the prefix has a hash tag that may be impossible, and it is any key.
func keyIn(prefix string, shards []shard, primary string) string {
	key := ""
	for range slots {
		key = prefix + "~d:" + rand.Text()
		slot := slotOf(key)
		for _, one := range shards {
			if one.primary == primary && one.first <= slot && slot <= one.last {
				return key
			}
		}
	}
	return key
}

// slotOf returns the slot of a key: the CRC-16 of XMODEM, as the specification of
// Redis Cluster has it.
func slotOf(key string) int64 {
	var crc uint16
	for _, b := range []byte(redisslot.Hashed(key)) {
		crc ^= uint16(b) << 8
		for range 8 {
			carry := crc & 0x8000
			if crc <<= 1; carry != 0 {
				crc ^= 0x1021
			}
		}
	}
	return int64(crc % slots)
}
