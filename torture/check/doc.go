// Package check judges a recorded history: what a correct lock can't have done.
//
// Every checker is sound: whatever a correct lock, store and harness record is
// passed, however faults fell. An operation without an answer may have happened
// or not, a lease that nobody released may have ended at any time from its
// deadline until the store must have forgotten it, and where a server lost its
// data anything is possible for a while. What could not be decided for such a
// reason is counted, never passed in silence.
//
// What happens because a server lost its data is a documented loss, and
// counted apart from the violations: a lock can't prevent it. Fences must hold
// even then.
package check
