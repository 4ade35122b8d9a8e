package command

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/holdfastlock/holdfast/driver"
	"github.com/holdfastlock/holdfast/open"
)

// card is a few labelled lines for people.
type card struct{ text strings.Builder }

// line adds a line unless the value is empty.
func (c *card) line(label, value string) {
	if value != "" {
		fmt.Fprintf(&c.text, "\n  %-9s %s", label, clean(value))
	}
}

// holder adds what is known of a holder.
func (c *card) holder(h driver.Holder) {
	owner := h.Owner()
	if h.Foreign() {
		owner += " (not a lock of holdfast)"
	}
	c.line("holder", owner)
	c.line("since", since(h.Age))
	c.line("TTL left", left(h.Left))
	if h.Left < 0 {
		c.line("note", endless)
	}
	c.line("purpose", h.Purpose)
	c.line("fence", fence(h.Fence))
}

// now is the clock of this host, for times that people read: nothing is decided
// by it. It is a variable so that the tests of cmd/holdfast can put it wrong.
var now = time.Now

// since says when something began that is this old by the store's clock; it is
// empty when that is not known.
func since(age time.Duration) string {
	if age <= 0 {
		return ""
	}
	return fmt.Sprintf("%s (%v ago)", now().Add(-age).Format(time.DateTime), short(age))
}

func left(d time.Duration) string {
	if d < 0 {
		return "no expiry"
	}
	return short(d).String()
}

func fence(number int64) string {
	if number == 0 {
		return ""
	}
	return strconv.FormatInt(number, 10)
}

// short rounds a time to what a person wants to read.
func short(d time.Duration) time.Duration {
	if d < time.Minute {
		return d.Round(100 * time.Millisecond)
	}
	return d.Round(time.Second)
}

// next returns a command of ours to be typed next, with the store given in the
// same way as it was to us.
func (a *app) next(command string) string {
	if a.store != "" {
		// A password is left out: it belongs in no terminal's history.
		command += " --store " + quote(open.Redact(a.store))
	}
	if a.config != "" {
		command += " --config " + quote(a.config)
	}
	return "holdfast " + command
}
