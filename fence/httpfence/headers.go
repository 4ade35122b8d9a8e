package httpfence

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/holdfastlock/holdfast/fence"
)

// The headers of a request.
const (
	FenceHeader = "Holdfast-Fence"
	OwnerHeader = "Holdfast-Owner"
)

// errMalformed is a mistake of the client.
var errMalformed = errors.New("malformed")

// Set puts a fence and its owner into the headers of a request, for clients that
// can't use Do. Owner says who holds the lease, in a way that no two leases
// share, but not by the lease's token, which is a secret.
func Set(header http.Header, owner string, shown int64) {
	header.Set(FenceHeader, strconv.FormatInt(shown, 10))
	header.Set(OwnerHeader, escape(owner))
}

// FromRequest returns the fence of a request and its owner. The error is
// fence.ErrNoFence if there is none, or says what is wrong with them; Refuse has
// an answer for each.
func FromRequest(r *http.Request) (shown fence.Mark, err error) {
	fences, owners := r.Header.Values(FenceHeader), r.Header.Values(OwnerHeader)
	switch {
	case len(fences) == 0:
		return shown, fence.ErrNoFence
	case len(fences) > 1 || len(owners) > 1:
		return shown, fmt.Errorf("%w: %s or %s is there twice", errMalformed, FenceHeader, OwnerHeader)
	case len(owners) == 0 || owners[0] == "":
		return shown, fmt.Errorf("%w: no %s beside %s", errMalformed, OwnerHeader, FenceHeader)
	}
	shown.Fence, err = strconv.ParseInt(fences[0], 10, 64)
	if err != nil || shown.Fence <= 0 {
		return fence.Mark{}, fmt.Errorf("%w: %s is not a number above 0", errMalformed, FenceHeader)
	}
	if shown.Owner, err = url.PathUnescape(owners[0]); err != nil {
		return fence.Mark{}, fmt.Errorf("%w: %s has a %% without two digits", errMalformed, OwnerHeader)
	}
	return shown, nil
}

// escape writes a text so that it is a header as it is, and leaves readable what
// can be.
func escape(text string) string {
	var b strings.Builder
	for i := range len(text) {
		if c := text[i]; c > ' ' && c < 0x7f && c != '%' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}
