package doctor

import (
	"slices"
	"strings"
)

// right is a command that the user must be allowed, and a form of it that changes
// nothing, where KEY is a key that does not exist, and CHANNEL one that nobody
// hears.
type right struct {
	command  string // as the ACL names it
	severity Severity
	use      string // what does not work without it
	try      string
}

const (
	forLocks = "locks"
	forQueue = "waiting for a lock"
	forWake  = "being told of a release"
	forSlots = "jobs that run once per slot"
	forList  = "holdfast ls"
	forLook  = "to look at the eviction policy"
)

// scripting are the two without which there are no scripts. How severe that is
// depends on what can take their place.
var scripting = []right{
	{"evalsha", Failure, forLocks, "EVALSHA 0000000000000000000000000000000000000000 0"},
	{"eval", Failure, forLocks, "EVAL return(1) 0"},
}

// needed is the rest of the rule of package redisstore, command by command. HSET
// has an odd number of arguments, which it refuses after the ACL was asked.
var needed = []right{
	{"get", Failure, forLocks, "GET KEY"},
	{"pttl", Failure, forLocks, "PTTL KEY"},
	{"hmget", Failure, forLocks, "HMGET KEY f"},
	{"time", Failure, forLocks, "TIME"},
	{"set", Failure, forLocks, "SET KEY v XX PX 1"},
	{"hset", Failure, forLocks, "HSET KEY f v odd"},
	{"pexpire", Failure, forLocks, "PEXPIRE KEY 1000"},
	{"del", Failure, forLocks, "DEL KEY"},
	{"hlen", Failure, forLocks, "HLEN KEY"},
	{"hgetall", Failure, forLocks, "HGETALL KEY"},
	{"hdel", Failure, forLocks, "HDEL KEY f"},
	{"scan", Note, forList, "SCAN 0 MATCH KEY COUNT 1"},
	{"info", Note, forLook, "INFO server"},
	{"zadd", Failure, forQueue, "ZADD KEY XX 1 m"},
	{"zrank", Failure, forQueue, "ZRANK KEY m"},
	{"zrem", Failure, forQueue, "ZREM KEY m"},
	{"zpopmin", Failure, forQueue, "ZPOPMIN KEY"},
	{"zremrangebyrank", Warning, forSlots, "ZREMRANGEBYRANK KEY 0 0"},
	{"zrevrange", Warning, forSlots, "ZREVRANGE KEY 0 0"},
}

// neededPlain is the rest of the rule without scripts: three commands less, which
// are worth having if there come to be scripts, and two more.
func neededPlain() []right {
	plain := slices.Clone(needed)
	for i, want := range plain {
		if slices.Contains([]string{"hgetall", "zrank", "zpopmin"}, want.command) {
			plain[i].severity = Warning
		}
	}
	return append(plain,
		right{"hscan", Failure, forLocks, "HSCAN KEY 0"},
		right{"zrange", Warning, forWake, "ZRANGE KEY 0 0"})
}

// The rights to channels; in a cluster others stand in their place.
var (
	subscribeRight   = right{"subscribe", Warning, forWake, ""}
	unsubscribeRight = right{"unsubscribe", Warning, forWake, ""}
	publishRight     = right{"publish", Failure, forQueue, "PUBLISH CHANNEL x"}
)

// sharded is the right to the same in the channel's slot of a cluster.
func (w right) sharded(cluster bool) right {
	if !cluster {
		return w
	}
	names := map[string]string{"subscribe": "ssubscribe", "unsubscribe": "sunsubscribe", "publish": "spublish"}
	return right{names[w.command], w.severity, w.use, strings.Replace(w.try, "PUBLISH", "SPUBLISH", 1)}
}

// inAddition is what the options ask.
func (s *server) inAddition() []right {
	switch {
	case s.options.WaitFsync:
		return []right{{"waitaof", Failure, "wait_fsync", "WAITAOF 0 0 1"}}
	case s.options.WaitReplicas > 0:
		return []right{{"wait", Failure, "wait_replicas", "WAIT 0 1"}}
	default:
		return nil
	}
}
