package driver

import "context"

// FenceRaiser is implemented by stores that can be one of several which agree
// on a fencing token: each of them numbers its grants by itself, and is then told
// the largest of the numbers. See package quorum.
type FenceRaiser interface {
	// RaiseFence makes the last fencing token of the grant by which the token
	// holds the name at least RaiseRequest.Last, compared and done in one atomic
	// step; those of later grants are larger. A larger one stays as it is, so that
	// a request which arrives late or twice can do no harm. Only with the answer
	// Mine was anything changed.
	RaiseFence(ctx context.Context, req RaiseRequest) (Answer, error)
}

// RaiseRequest asks to raise the fencing token of a grant.
type RaiseRequest struct {
	Name  string
	Token string
	// Last is the last of the fencing tokens that were reserved for the grant.
	Last int64
}
