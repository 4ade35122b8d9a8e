package command

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfastlock/holdfast"
	"github.com/holdfastlock/holdfast/driver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestEachKindOfFailureHasAnExitCodeOfItsOwn(t *testing.T) {
	for _, c := range []struct {
		err  error
		want int
	}{
		{&driver.NameError{}, 64},
		{usage("x"), 64},
		{&holdfast.HeldError{}, 75},
		{&holdfast.HeldError{Err: errors.New("deadline")}, 75},
		{&holdfast.LostError{Err: &driver.Error{Kind: driver.ErrUnreachable}}, 79},
		{&driver.Error{Kind: driver.ErrUnreachable}, 69},
		{&driver.Error{Kind: driver.ErrRefused}, 77},
		{&driver.Error{Kind: driver.ErrMisconfigured}, 78},
		{&driver.Error{Kind: driver.ErrUnsupported}, 78},
		{context.DeadlineExceeded, 69}, // of --connect-timeout
		{errors.New("of no kind"), 70},
	} {
		wrapped := fmt.Errorf("around it: %w", c.err)
		var end *exit
		got := codeOf(wrapped)
		if errors.As(wrapped, &end) {
			got = end.code
		}
		if got != c.want {
			t.Errorf("%v: got code %d, want %d", c.err, got, c.want)
		}
	}
}

func TestABareNumberIsSeconds(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"10": 10 * time.Second, "0.5": 500 * time.Millisecond, "0": 0, "1m30s": 90 * time.Second, "500ms": 500 * time.Millisecond,
	} {
		if got, err := parseDuration(text); err != nil || got != want {
			t.Errorf("%s: got %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", ".", "-1", "-1s", "1e3", "inf", "10 s", "99999999999999999999", "forever"} {
		if got, err := parseDuration(text); err == nil {
			t.Errorf("%q: got %v, want an error", text, got)
		}
	}
}

func TestTheTTLMustCoverTheGraceAndTwoExtensions(t *testing.T) {
	for _, c := range []struct {
		ttl, grace time.Duration
		ok         bool
	}{
		{30 * time.Second, 9400 * time.Millisecond, true}, // 9.4 s + 20 s + 0.6 s
		{30 * time.Second, 9401 * time.Millisecond, false},
		{3 * time.Second, 900 * time.Millisecond, true}, // 0.9 s + 2 s + 0.1 s
		{3 * time.Second, 901 * time.Millisecond, false},
	} {
		f := runFlags{ttl: duration(c.ttl), killAfter: duration(c.grace), killGiven: true}
		if err := f.checkTTL(); (err == nil) != c.ok {
			t.Errorf("ttl %v, grace %v: got %v", c.ttl, c.grace, err)
		}
	}
	for ttl, ok := range map[time.Duration]bool{600 * time.Millisecond: true, 599 * time.Millisecond: false} {
		f := runFlags{ttl: duration(ttl)}
		if err := f.checkTTL(); (err == nil) != ok {
			t.Errorf("ttl %v with its own grace: got %v", ttl, err)
		}
	}
}

func TestWhatIsToBeTypedIsSafeInAShell(t *testing.T) {
	for text, want := range map[string]string{
		"report:daily/1": "report:daily/1", "": "''", "a b": "'a b'", "$x": "'$x'", "it's": `'it'\''s'`, "a?b=1&c": "'a?b=1&c'",
	} {
		if got := quote(text); got != want {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
	}
}

func TestTextFromAStoreCannotControlTheTerminal(t *testing.T) {
	var c card
	c.holder(driver.Holder{Token: "x@evil\x1b[2J\nholder me", Purpose: "a\rb"})
	if got := c.text.String(); strings.ContainsAny(got, "\x1b\r") || strings.Count(got, "\n") != 3 {
		t.Errorf("got %q", got)
	}
}
