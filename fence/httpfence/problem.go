package httpfence

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"

	"github.com/holdfastlock/holdfast/fence"
)

// What tells these problems from others with the same codes.
const (
	typeStale    = "https://pkg.go.dev/github.com/holdfastlock/holdfast/fence#StaleError"
	typeConflict = "https://pkg.go.dev/github.com/holdfastlock/holdfast/fence#ConflictError"
)

const mediaType = "application/problem+json"

// problem is the body of a refusal, as RFC 9457 has it.
type problem struct {
	Type   string `json:"type,omitempty"` // without one it is about:blank
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`

	Resource string `json:"resource,omitempty"`
	Fence    int64  `json:"fence,omitempty"`
	Newest   int64  `json:"newest,omitempty"`
	Owner    string `json:"owner,omitempty"`
	First    string `json:"first_owner,omitempty"`
}

// Refuse answers a request with the reason why its fence was not accepted: an
// error of FromRequest, of a fence.Guard, sqlfence or pgxfence. What it does not
// know is 503, and its text, which may be about the insides of the server, is
// not sent.
func Refuse(w http.ResponseWriter, err error) {
	p := problemOf(err)
	p.Title = http.StatusText(p.Status)
	w.Header().Set("Content-Type", mediaType)
	w.WriteHeader(p.Status)
	// An error means that the client is gone.
	_ = json.NewEncoder(w).Encode(p)
}

func problemOf(err error) problem {
	var stale *fence.StaleError
	var conflict *fence.ConflictError
	switch {
	case errors.As(err, &stale):
		return problem{Type: typeStale, Status: http.StatusPreconditionFailed, Detail: err.Error(),
			Resource: stale.Resource, Fence: stale.Fence, Newest: stale.Newest}
	case errors.As(err, &conflict):
		return problem{Type: typeConflict, Status: http.StatusConflict, Detail: err.Error(),
			Resource: conflict.Resource, Fence: conflict.Fence, Owner: conflict.Owner, First: conflict.First}
	case errors.Is(err, fence.ErrNoFence):
		return problem{Status: http.StatusPreconditionRequired,
			Detail: "send the fence of your lease in " + FenceHeader + ", and its owner in " + OwnerHeader}
	case errors.Is(err, errMalformed):
		return problem{Status: http.StatusBadRequest, Detail: err.Error()}
	default:
		return problem{Status: http.StatusServiceUnavailable, Detail: "it can't be told whether the fence is stale"}
	}
}

// Check returns the *fence.StaleError or *fence.ConflictError that an answer is.
// It is for clients that can't use Do. It returns nil for every other answer,
// whose body is then still to be read.
func Check(resp *http.Response) error {
	if resp.StatusCode != http.StatusPreconditionFailed && resp.StatusCode != http.StatusConflict {
		return nil
	}
	if kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); kind != mediaType {
		return nil
	}
	return read(resp)
}

// read takes the problem out of the body, and puts back what is none of ours.
func read(resp *http.Response) error {
	const limit = 64 << 10 // names and owners are much shorter
	head, _ := io.ReadAll(io.LimitReader(resp.Body, limit))
	var p problem
	if json.Unmarshal(head, &p) == nil {
		switch p.Type {
		case typeStale:
			return &fence.StaleError{Resource: p.Resource, Fence: p.Fence, Newest: p.Newest}
		case typeConflict:
			return &fence.ConflictError{Resource: p.Resource, Fence: p.Fence, Owner: p.Owner, First: p.First}
		}
	}
	resp.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(head), resp.Body), resp.Body}
	return nil
}
