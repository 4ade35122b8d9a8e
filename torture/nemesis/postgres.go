package nemesis

import "time"

// The kinds of faults that only Postgres has. Its data is on the disk, and on
// that of a standby which confirms every commit.
var (
	BackendStop   = Kind{Name: "backend SIGSTOP", What: "the server's process of one connection stands still, in a transaction if there is one", Lane: Servers, Shortest: ms(100), Longest: ms(2000)}
	KillBackends  = Kind{Name: "connections killed", What: "the server ends all connections", Lane: Servers}
	KillListeners = Kind{Name: "listeners killed", What: "the server ends all connections that LISTEN", Lane: Servers}
	PoolerRestart = Kind{Name: "pooler restart", What: "PgBouncer is killed, and started again", Lane: Servers, Shortest: ms(10), Longest: ms(500)}
	FailoverSync  = Kind{Name: "failover synchronous", What: "the standby is cut off and promoted while the server goes on: it has every commit that was answered", Lane: Servers, Shortest: ms(50), Longest: ms(500), Healing: newStandby}
	FailoverAsync = Kind{Name: "failover asynchronous", What: "the same when the server does not wait for the standby, which lacks the latest commits", Lane: Servers, Shortest: ms(200), Longest: ms(2000), Healing: newStandby, Loss: true, Promotes: true}
)

// newStandby is how long it takes to copy the server after a failover.
const newStandby = 4 * time.Second

// OfPostgres are all that a run with Postgres can suffer.
var OfPostgres = []Kind{
	Kill, Stop, ClientClock,
	Delay, BlackHole, Cut, ReplyLost, RequestsLost, RepliesLost,
	ServerStop, ServerKill, Restart, BackendStop, KillBackends, KillListeners, PoolerRestart, ClockBack, FailoverSync,
	ClockForward, FailoverAsync,
}
