package nemesis

import "time"

// Lane is what a fault is done to. The faults of one lane follow one another;
// those of different lanes overlap.
type Lane int

const (
	// Processes has a lane for each worker: its process and clock.
	Processes Lane = iota
	// Networks has a lane for each worker: the proxy between it and the server.
	Networks
	// Servers has one lane.
	Servers
)

// Kind is one kind of fault.
type Kind struct {
	Name string
	// What happens, for people.
	What string
	Lane Lane
	// Shortest and Longest are how long one lasts; both 0 for those of a moment.
	// They are for a TTL of a second and grow with it.
	Shortest, Longest time.Duration
	// Healing is about how long it takes to heal one; 0 if it takes no time worth
	// planning for.
	Healing time.Duration
	// Loss says that the store loses data by it, or ends leases early: two
	// holders are then a documented loss.
	Loss bool
	// Promotes says that a replica takes over that may not have heard of the
	// latest.
	Promotes bool
	// ClockBack says that the server's clock goes back by it.
	ClockBack bool
}

// The kinds of faults.
var (
	Kill        = Kind{Name: "SIGKILL", What: "a worker is killed and another started in its place", Lane: Processes}
	Stop        = Kind{Name: "SIGSTOP", What: "a worker stands still, often for longer than its leases last", Lane: Processes, Shortest: ms(200), Longest: ms(2500)}
	ClientClock = Kind{Name: "client clock", What: "a worker's wall clock is set, forward or back", Lane: Processes}

	Delay        = Kind{Name: "delay", What: "what passes between a worker and the server comes late", Lane: Networks, Shortest: ms(500), Longest: ms(2500)}
	BlackHole    = Kind{Name: "black hole", What: "nothing passes, and what was sent meanwhile comes late", Lane: Networks, Shortest: ms(100), Longest: ms(2000)}
	Cut          = Kind{Name: "cut", What: "the connection is closed in the middle of what passes", Lane: Networks, Shortest: ms(100), Longest: ms(500)}
	ReplyLost    = Kind{Name: "reply lost", What: "a command is carried out, and its reply lost with all later ones", Lane: Networks, Shortest: ms(50), Longest: ms(500)}
	RequestsLost = Kind{Name: "requests lost", What: "nothing reaches the server, which is still heard", Lane: Networks, Shortest: ms(100), Longest: ms(1500)}
	RepliesLost  = Kind{Name: "replies lost", What: "the server hears and is not heard", Lane: Networks, Shortest: ms(100), Longest: ms(1500)}

	ServerStop    = Kind{Name: "server SIGSTOP", What: "the server stands still", Lane: Servers, Shortest: ms(100), Longest: ms(2000)}
	ServerKill    = Kind{Name: "server SIGKILL", What: "the server crashes; its data is on the disk", Lane: Servers, Shortest: ms(10), Longest: ms(1000)}
	Restart       = Kind{Name: "restart", What: "the server is stopped in an orderly way and keeps its data", Lane: Servers, Shortest: ms(10), Longest: ms(1000)}
	ScriptFlush   = Kind{Name: "SCRIPT FLUSH", What: "the server forgets its scripts", Lane: Servers}
	KillNormal    = Kind{Name: "CLIENT KILL normal", What: "the server closes all connections for commands", Lane: Servers}
	KillPubSub    = Kind{Name: "CLIENT KILL pubsub", What: "the server closes all connections for messages", Lane: Servers}
	TinyBuffers   = Kind{Name: "tiny pubsub buffers", What: "the server closes connections for messages that it has a message for", Lane: Servers, Shortest: ms(100), Longest: ms(1500)}
	FullMemory    = Kind{Name: "full memory", What: "the server refuses all that needs memory", Lane: Servers, Shortest: ms(100), Longest: ms(1500)}
	ClockBack     = Kind{Name: "server clock back", What: "the servers' clock is set back", Lane: Servers, Shortest: ms(500), Longest: ms(2000), ClockBack: true}
	ClockForward  = Kind{Name: "server clock forward", What: "the servers' clock is set forward: leases end early", Lane: Servers, Loss: true}
	FlushAll      = Kind{Name: "FLUSHALL", What: "somebody deletes everything", Lane: Servers, Loss: true}
	RestartEmpty  = Kind{Name: "restart empty", What: "the server comes back without its data", Lane: Servers, Shortest: ms(10), Longest: ms(500), Loss: true}
	Eviction      = Kind{Name: "eviction", What: "the server drops keys to free memory", Lane: Servers, Shortest: ms(10), Longest: ms(100), Loss: true}
	FailoverBlind = Kind{Name: "failover lagging", What: "a replica that has not heard of the latest is promoted", Lane: Servers, Shortest: ms(50), Longest: ms(500), Loss: true, Promotes: true}
)

// Kinds are all of them.
var Kinds = []Kind{
	Kill, Stop, ClientClock,
	Delay, BlackHole, Cut, ReplyLost, RequestsLost, RepliesLost,
	ServerStop, ServerKill, Restart, ScriptFlush, KillNormal, KillPubSub, TinyBuffers, FullMemory, ClockBack,
	ClockForward, FlushAll, RestartEmpty, Eviction, FailoverBlind,
}

func ms(n int) time.Duration { return time.Duration(n) * time.Millisecond }

// Of returns all kinds that a store can suffer: redis, sentinel, cluster, quorum,
// postgres or local.
func Of(store string) (kinds []Kind) {
	switch store {
	case "redis":
		return Kinds
	case "sentinel":
		return OfSentinel
	case "cluster":
		return OfCluster
	case "quorum":
		return OfQuorum
	case "postgres":
		return OfPostgres
	}
	for _, kind := range Kinds {
		if kind.Lane == Processes {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}
