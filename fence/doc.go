// Package fence is what the resource runs: whoever receives the writes of lock
// holders, and must not be damaged by one that was too slow to notice the loss
// of its lease.
//
// Every lease has a fencing token (Lease.Fence), larger than that of every
// earlier lease of the name. The holder sends it along with what it asks for; the
// resource remembers the largest it has seen and refuses a smaller one, in the
// same step as the change. A check by the holder is worth nothing, since the
// holder may be paused after it.
//
// A holder that reads and then writes must show its fence before it reads
// (Touch). Otherwise a paused holder can write after a successor has read, and
// the successor overwrites that write without having seen it.
//
// Which package a resource needs depends on where its data is:
//
//   - a database: sqlfence (database/sql) or pgxfence, in the writer's own
//     transaction
//   - Redis or Valkey: redisfence, in the script that writes
//   - files of one machine: filefence
//   - the memory of one process: Memory
//   - behind HTTP: httpfence, which needs one of the above as its Guard
//   - an object store, or another place that compares before it writes: Mark.Check
//
// This package itself has the errors, the rule (Mark), the interface Guard, and
// Memory. It imports the standard library only.
//
// What the fence protects must not outlive what the resource remembers of it: a
// resource that has forgotten accepts any fence. So the mark is kept where the
// data is, and just as durably.
package fence
