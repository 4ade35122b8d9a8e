package check

import (
	"github.com/anishathalye/porcupine"
)

// The model is one name at the store, as a mutex with fences. What it does not
// know of the store, it leaves open:
//
//   - A lease ends by its release or by its TTL; either is one step, end, at
//     some moment of the time in which it is possible. With a lock delay the TTL
//     ends so much later than the holder's belief.
//   - An acquire that failed or was never answered may have held the name for a
//     while. That can only be seen in an answer "held" to others: such answers
//     are left out (see phantoms).
//   - From the beginning to the end of a fault that loses data everything is
//     allowed, and after it anybody may hold the name until the next grant: what
//     was lost is free, what was released may be back.

// step is what an operation does to a name.
type step int

const (
	grant step = iota
	end
	extend
	refuse // an answer "held"
	lossBegins
	lossEnds
)

// input is an operation as the model sees it.
type input struct {
	step  step
	lease int // index of the lease concerned
	fence int64
	// unfenced says that the leases of the name have no fences.
	unfenced bool
	// shaky says that the lease may have been lost, and be back.
	shaky bool
	// excused says that an answer "held" may be due to a lease that nobody knows.
	excused bool
}

// Who holds a name, apart from the index of a lease.
const (
	nobody  = -1
	anybody = -2 // one lease that is not known, or nobody
)

// state is the model's state.
type state struct {
	holder int
	fence  int64 // the last that was granted
	lossy  bool
}

// next returns the state after an operation, and whether it could happen.
func (s state) next(in input) (state, bool) {
	switch {
	case in.step == lossBegins:
		s.lossy = true
		return s, true
	case in.step == lossEnds:
		return state{anybody, s.fence, false}, true
	case in.step == grant:
		possible := s.lossy || s.holder < 0 && (in.unfenced || in.fence > s.fence)
		return state{in.lease, max(s.fence, in.fence), s.lossy}, possible
	case s.lossy:
		return s, true
	case in.step == refuse:
		return s, s.holder != nobody
	case in.step == extend:
		return s, s.holder == in.lease
	case s.holder == in.lease: // end
		s.holder = nobody
		return s, true
	default: // it has ended before only if it was lost
		return s, in.shaky
	}
}

// model returns the model that begins in the state given.
func model(initial state) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return initial },
		Step: func(s, in, _ any) (bool, any) {
			after, ok := s.(state).next(in.(input))
			return ok, after
		},
	}
}
