package command

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfastlock/holdfast/driver"
)

const (
	// progressAfter is how long a listing lasts before its progress is shown.
	progressAfter = 500 * time.Millisecond
	progressEvery = 200 * time.Millisecond
	eraseLine     = "\r\x1b[K"
)

// progress returns a context under which a long listing shows on a terminal how
// far it has come, and the function that takes that away again.
func (a *app) progress(ctx context.Context) (listing context.Context, done func()) {
	if !isTerminal(a.stderr) {
		return ctx, func() {}
	}
	last := time.Now().Add(progressAfter - progressEvery)
	shown := false
	tell := func(looked, of int64) {
		if time.Since(last) < progressEvery {
			return
		}
		last, shown = time.Now(), true
		total := ""
		if of > 0 {
			total = fmt.Sprintf(" of %d", of)
		}
		fmt.Fprintf(a.stderr, "%sholdfast: looked at about %d%s keys", eraseLine, looked, total)
	}
	return driver.WithProgress(ctx, tell), func() {
		if shown {
			fmt.Fprint(a.stderr, eraseLine)
		}
		shown = false
	}
}
