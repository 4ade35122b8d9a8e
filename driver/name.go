package driver

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxName is the longest name, in bytes.
const MaxName = 512

// NameError says that a text can't be the name of a lock.
type NameError struct {
	Name   string
	Reason string
}

// Error says which name and why.
func (e *NameError) Error() string {
	const shown = 40
	name := e.Name
	if len(name) > shown {
		name = name[:shown] + "…"
	}
	return fmt.Sprintf("lock name %q: %s", name, e.Reason)
}

// CheckName returns a *NameError unless the name can be that of a lock: 1 to
// MaxName bytes of UTF-8 without control characters that do not begin with '~',
// which marks the stores' own data. Stores may refuse more, likewise before
// anything is written.
func CheckName(name string) error {
	switch {
	case name == "":
		return &NameError{name, "is empty"}
	case len(name) > MaxName:
		return &NameError{name, fmt.Sprintf("has %d bytes, more than %d", len(name), MaxName)}
	case name[0] == '~':
		return &NameError{name, "begins with '~', which marks holdfast's own data; choose another first character"}
	case !utf8.ValidString(name):
		return &NameError{name, "is not valid UTF-8"}
	case strings.ContainsFunc(name, unicode.IsControl):
		return &NameError{name, "has a control character"}
	}
	return nil
}
