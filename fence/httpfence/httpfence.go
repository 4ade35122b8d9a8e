package httpfence

import (
	"context"
	"net/http"

	"github.com/holdfastlock/holdfast/fence"
)

// Do sends a request with a fence and its owner. The answer of a server that
// refuses the fence is returned as a *fence.StaleError or *fence.ConflictError, in
// place of the response. Fences that are 0 or less are not sent: ErrNoFence. All
// else is as with client.Do; after its other errors it is not known whether the
// server has made the change.
func Do(client *http.Client, req *http.Request, owner string, shown int64) (*http.Response, error) {
	if shown <= 0 {
		return nil, fence.ErrNoFence
	}
	req = req.Clone(req.Context())
	Set(req.Header, owner, shown)
	resp, err := client.Do(req)
	if err != nil {
		return resp, err
	}
	if err := Check(resp); err != nil {
		_ = resp.Body.Close() // it was read
		return nil, err
	}
	return resp, nil
}

// Path names the resource of a request by the path of its URL.
func Path(r *http.Request) string { return r.URL.Path }

// Require lets through to the handler only requests whose fence the guard
// accepts. While the handler is at work, the resource is closed for other
// requests, which wait. A request without a fence is refused, unless it only
// looks (GET, HEAD or OPTIONS): that goes to the handler as it is. With a fence
// it also touches, so that a holder can begin with it.
//
// If the guard can't keep the resource closed until the handler has ended, the
// connection is broken off: the change was made, but perhaps not alone.
func Require(guard fence.Guard, resource func(*http.Request) string, handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if onlyLooks(r) {
			handler.ServeHTTP(w, r)
			return
		}
		shown, err := FromRequest(r)
		if err != nil {
			Refuse(w, err)
			return
		}
		accepted := false
		err = guard.Do(r.Context(), resource(r), shown.Owner, shown.Fence, func(ctx context.Context) error {
			accepted = true
			handler.ServeHTTP(w, r.WithContext(ctx))
			return nil
		})
		switch {
		case err != nil && accepted:
			panic(http.ErrAbortHandler)
		case err != nil:
			Refuse(w, err)
		}
	})
}

// onlyLooks says whether a request changes nothing and comes from nobody who
// holds a lock.
func onlyLooks(r *http.Request) bool {
	if len(r.Header.Values(FenceHeader)) > 0 {
		return false
	}
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return true
	}
	return false
}
