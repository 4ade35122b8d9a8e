package holdfastgocron

import (
	"fmt"

	"github.com/holdfastlock/holdfast/once"
)

// SkippedError says that a job was not run here because its slot is not to be
// run: it is done, runs elsewhere, is late or lost; see once.Outcome. Most hosts
// meet it at most ticks, and nothing is wrong.
type SkippedError struct {
	Job    string
	Result once.Result
}

// Error returns one line for people.
func (e *SkippedError) Error() string {
	text := fmt.Sprintf("job %q, slot %s: %v", e.Job, e.Result.Slot, e.Result.Outcome)
	if owner := e.Result.Run.Owner(); owner != "" {
		text += " (" + owner + ")"
	}
	return text
}
