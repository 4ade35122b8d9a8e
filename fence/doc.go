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
// This version has Memory, for a resource that is one process. What the fence
// protects must be lost with it: a process that starts again has seen no fence,
// and accepts any.
package fence
