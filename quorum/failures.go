package quorum

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfastlock/holdfast/driver"
)

// failures are the errors of nodes in one call.
type failures struct {
	count int
	first string // what the first of them said
	sure  []error
}

// note takes in the error of a node.
func (f *failures) note(node int, err error) {
	f.count++
	if f.first == "" {
		text := err.Error()
		if errors.Is(err, context.DeadlineExceeded) {
			text = "no answer in time"
		}
		f.first = fmt.Sprintf("node %d: %s", node+1, text)
	}
	if !driver.Unknown(err) && !errors.Is(err, driver.ErrUnreachable) {
		f.sure = append(f.sure, err)
	}
}

// verdict returns the error of a call to n nodes of which answered have answered:
// what a majority m refuses is refused; else there is no majority to be had.
func (f *failures) verdict(n, answered, m int) error {
	if len(f.sure) >= m {
		return f.sure[0]
	}
	return f.unreachable(n, answered, "have answered")
}

// unreachable says how many nodes have done something, which are too few. What
// the first error is made of is hidden: it is that of one node, not of the call.
func (f *failures) unreachable(n, done int, what string) error {
	text := fmt.Sprintf("only %d of %d nodes %s", done, n, what)
	if f.first != "" {
		text += "; " + f.first
	}
	return &driver.Error{Kind: driver.ErrUnreachable, Err: errors.New(text)}
}
