package memstore

// Fault makes one operation fail. The zero Fault lets it succeed.
type Fault struct {
	// Before is returned instead of carrying the operation out: the request was
	// lost.
	Before error
	// After is returned although the operation was carried out: the reply was
	// lost.
	After error
}

// SetFault has f asked before each operation whether it fails; nil ends that.
// The operation is "acquire", "enqueue", "extend", "release", "inspect", "list",
// "raise", "inspect slot", "begin slot", "finish slot" or "runs"; extend is one
// operation whatever the number of leases. Nothing is asked for a name that is refused or a
// context that has ended. For "handoff", the message to an inbox that a name was
// handed on, any fault means that the message is lost, after it was sent.
//
// f runs on the caller's goroutine, may block, and may use the store; it must be
// safe for concurrent use where the store is used so.
func (s *Store) SetFault(f func(op string) Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = f
}

func (s *Store) nextFault(op string) Fault {
	s.mu.Lock()
	f := s.fault
	s.mu.Unlock()
	if f == nil {
		return Fault{}
	}
	return f(op)
}
