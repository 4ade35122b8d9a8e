package nemesis

import "time"

// The kinds of faults of servers that replace one another: under Sentinel, or in a
// Cluster. A replica may not have heard of the latest when it takes over.
var (
	BriefStop      = Kind{Name: "brief SIGSTOP", What: "a primary stands still, for less than it takes to be replaced", Lane: Servers, Shortest: ms(50), Longest: ms(300)}
	ReplicaKill    = Kind{Name: "replica SIGKILL", What: "a replica is killed, and started again", Lane: Servers, Shortest: ms(10), Longest: ms(1000)}
	SentinelsKill  = Kind{Name: "sentinels SIGKILL", What: "one, two or all of the sentinels are killed, and started again", Lane: Servers, Shortest: ms(10), Longest: ms(1500), Healing: settled}
	SlotMoved      = Kind{Name: "slot migration", What: "the slot of a lock goes to another node, one key after the other", Lane: Servers, Shortest: ms(50), Longest: ms(500)}
	Handover       = Kind{Name: "handover", What: "CLUSTER FAILOVER: a replica takes over when it has all that its primary has", Lane: Servers, Healing: settled}
	FailoverByKill = Kind{Name: "failover by SIGKILL", What: "a primary is killed, and comes back when it has been replaced", Lane: Servers, Healing: replaced, Loss: true, Promotes: true}
	FailoverByStop = Kind{Name: "failover by SIGSTOP", What: "a primary stands still, and goes on when it has been replaced", Lane: Servers, Healing: replaced, Loss: true, Promotes: true}
	FailoverByCut  = Kind{Name: "failover by partition", What: "a primary is cut off from its replicas and the sentinels, not from the clients, until it has been replaced", Lane: Servers, Healing: replaced, Loss: true, Promotes: true}
	FailoverByHand = Kind{Name: "failover by command", What: "somebody has a replica take over from a primary that is well", Lane: Servers, Healing: replaced, Loss: true, Promotes: true}
)

// How long it takes until servers know of one another again, and until one has
// been replaced and follows the other.
const (
	settled  = 1500 * time.Millisecond
	replaced = 4 * time.Second
)

// OfSentinel are all that a run with Sentinel can suffer.
var OfSentinel = []Kind{
	Kill, Stop, ClientClock,
	Delay, BlackHole, Cut, ReplyLost, RequestsLost, RepliesLost,
	BriefStop, ReplicaKill, SentinelsKill, ScriptFlush, KillNormal, KillPubSub,
	FailoverByKill, FailoverByStop, FailoverByCut, FailoverByHand,
}

// OfCluster are all that a run with a Cluster can suffer.
var OfCluster = []Kind{
	Kill, Stop, ClientClock,
	Delay, BlackHole, Cut, ReplyLost, RequestsLost, RepliesLost,
	BriefStop, ReplicaKill, SlotMoved, Handover, ScriptFlush, KillNormal, KillPubSub,
	FailoverByKill, FailoverByStop, FailoverByHand,
}

// The kinds of faults of independent servers of which a majority decides. Some
// are fewer than the majority, and no more are away at a time together with
// those that abstain; most are a majority.
var (
	SomeStop  = Kind{Name: "some SIGSTOP", What: "one or two of the servers stand still", Lane: Servers, Shortest: ms(100), Longest: ms(2500)}
	SomeKill  = Kind{Name: "some SIGKILL", What: "one or two crash; their data is on the disk", Lane: Servers, Shortest: ms(10), Longest: ms(1500)}
	SomeEmpty = Kind{Name: "some restart empty", What: "one or two come back without their data, and abstain until the longest lease is over", Lane: Servers, Shortest: ms(10), Longest: ms(500)}
	SomeSlow  = Kind{Name: "some slow", What: "what passes between anybody and one or two servers comes late", Lane: Servers, Shortest: ms(500), Longest: ms(2500)}
	SomeCut   = Kind{Name: "some black hole", What: "nothing passes between anybody and one or two servers", Lane: Servers, Shortest: ms(100), Longest: ms(2500)}
	OneBack   = Kind{Name: "a clock back", What: "the clock of one server is set back", Lane: Servers, Shortest: ms(500), Longest: ms(2000), ClockBack: true}
	MostStop  = Kind{Name: "most SIGSTOP", What: "a majority stands still", Lane: Servers, Shortest: ms(100), Longest: ms(2500)}
	MostKill  = Kind{Name: "most SIGKILL", What: "a majority crashes; its data is on the disk", Lane: Servers, Shortest: ms(10), Longest: ms(1500), Healing: abstained}
	// More than the assumptions of a quorum allow. Without the data the clocks
	// decide about fences, and one may be behind the one that did before.
	MostFlush  = Kind{Name: "most FLUSHALL", What: "somebody deletes everything from a majority", Lane: Servers, Loss: true, ClockBack: true}
	OneForward = Kind{Name: "a clock forward", What: "the clock of one server is set forward: it ends leases early", Lane: Servers, Loss: true}
)

// abstained is how long a server abstains that was restarted.
const abstained = 4 * time.Second

// OfQuorum are all that a run with a quorum can suffer.
var OfQuorum = []Kind{
	Kill, Stop, ClientClock,
	Delay, BlackHole, Cut, ReplyLost, RequestsLost, RepliesLost,
	SomeStop, SomeKill, SomeEmpty, SomeSlow, SomeCut, OneBack, MostStop, MostKill, ScriptFlush, KillNormal, KillPubSub,
	MostFlush, OneForward,
}
