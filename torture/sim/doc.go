// Package sim runs the locker on memstore in fake time, many short runs a second:
// a few processes compete for a few names while requests and replies are lost and
// late, processes are frozen or die, machines are suspended, clocks drift and
// jump, and the store goes down or loses its data. In most runs the store keeps
// queues, whose messages are lost, late and doubled. All is drawn from a seed, so
// that a run which breaks a promise can be run again.
//
// Processes share one Go process here, and each has its own store and clock in
// front of the one memstore. The clock comes in by a patch that is applied with
// go test -overlay; see seam.patch and package overlay. Without it there are no
// faults of clocks, and the pauses of the locker are not drawn from the seed.
package sim
