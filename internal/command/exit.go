package command

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/holdfastlock/holdfast"
	"github.com/holdfastlock/holdfast/driver"
)

// Exit codes, beside the child's own and those of package supervise. Where
// sysexits.h has a code with the same meaning it is that one.
const (
	codeNo            = 1  // the answer of show, held and release is no
	codeUsage         = 64 // EX_USAGE
	codeUnreachable   = 69 // EX_UNAVAILABLE
	codeFailed        = 70 // EX_SOFTWARE: nothing else fits
	codeHeld          = 75 // EX_TEMPFAIL
	codeRefused       = 77 // EX_NOPERM
	codeMisconfigured = 78 // EX_CONFIG
	codeLost          = 79
	codeLate          = 124 // as timeout(1) has it
)

// exit ends the command with a code and, if there is a text, a message. It is
// an error so that cobra passes it on.
type exit struct {
	code int
	text string
}

func (e *exit) Error() string { return e.text }

// ExitCode is the code by which package once remembers a command.
func (e *exit) ExitCode() int { return e.code }

func exitWith(code int, format string, args ...any) error {
	return &exit{code, fmt.Sprintf(format, args...)}
}

func usage(format string, args ...any) error { return exitWith(codeUsage, format, args...) }

// report writes the message of an error, in one line unless it is a card, and
// returns its exit code.
func (a *app) report(err error) int {
	if err == nil {
		return 0
	}
	var end *exit
	if !errors.As(err, &end) {
		end = &exit{codeOf(err), oneLine(err)}
	}
	if end.text != "" {
		a.say("%s", end.text)
	}
	return end.code
}

// oneLine is the text of an error, which has a line for each of several causes.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

func codeOf(err error) int {
	var name *driver.NameError
	switch {
	case errors.As(err, &name):
		return codeUsage
	case errors.Is(err, holdfast.ErrHeld):
		return codeHeld
	case errors.Is(err, holdfast.ErrLost):
		return codeLost
	case errors.Is(err, holdfast.ErrUnreachable), errors.Is(err, context.DeadlineExceeded):
		return codeUnreachable
	case errors.Is(err, holdfast.ErrRefused):
		return codeRefused
	case errors.Is(err, holdfast.ErrMisconfigured), errors.Is(err, driver.ErrUnsupported):
		return codeMisconfigured
	default:
		return codeFailed
	}
}
