package driver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"unicode"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestATokenIsNewEachTimeAndNamesItsOwner(t *testing.T) {
	seen := map[string]bool{}
	for range 1000 {
		token := NewToken("host/7")
		if seen[token] || !ownToken(token) {
			t.Fatalf("token %q: seen before, or not taken for ours", token)
		}
		seen[token] = true
		if owner := (Holder{Token: token}).Owner(); owner != "host/7" {
			t.Fatalf("the owner is %q", owner)
		}
	}
}

func TestTokensOfOtherProgramsAreForeign(t *testing.T) {
	for token, owner := range map[string]string{
		"":                                "",
		"short":                           "short",
		"0b50a7de-1f1c-4f5b":              "0b50a7de…",
		"x@host/7":                        "host/7",
		"\xff\xfe\xff\xfe1234567890":      "1234…",
		strings.Repeat("g", 32) + "@host": "host",
	} {
		h := Holder{Token: token}
		if !h.Foreign() || h.Owner() != owner {
			t.Errorf("%q: foreign %v, owner %q, want %q", token, h.Foreign(), h.Owner(), owner)
		}
	}
}

func TestTheOutcomeIsUnknownUnlessNothingCanHaveBeenDone(t *testing.T) {
	dial := &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	read := &net.OpError{Op: "read", Err: errors.New("connection reset")}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	for _, c := range []struct {
		err  error
		want bool
	}{
		{nil, false},
		{NoAnswer(context.Background(), read), true},
		{NoAnswer(context.Background(), dial), false},
		{NoAnswer(ended, read), true},
		{&Error{Kind: ErrRefused}, false},
		{&Error{Kind: ErrMisconfigured}, false},
		{&Error{Kind: ErrUnsupported}, false},
		{fmt.Errorf("acquire: %w", ErrWithdrawn), false},
		{CheckName(""), false},
		{errors.New("anything else"), true},
	} {
		if got := Unknown(c.err); got != c.want {
			t.Errorf("Unknown(%v) is %v", c.err, got)
		}
	}
}

func TestAnEndedContextIsNotAnUnreachableStore(t *testing.T) {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if err := NoAnswer(ended, errors.New("x")); !errors.Is(err, context.Canceled) || errors.Is(err, ErrUnreachable) {
		t.Errorf("the context has ended: %v", err)
	}
	if err := NoAnswer(context.Background(), errors.New("x")); !errors.Is(err, ErrUnreachable) {
		t.Errorf("it has not: %v", err)
	}
}

func TestAPatternMatchesTheWholeName(t *testing.T) {
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"", "", true}, {"", "a", false}, {"*", "", true}, {"*", "a/b c", true},
		{"a*", "ab", true}, {"a*", "ba", false}, {"*b*", "abc", true}, {"a*b*c", "a-b-b-c", true},
		{"a*b*c", "a-c-b", false}, {"?", "ü", true}, {"?", "", false}, {"a?c", "abc", true},
		{"[ab]", "a", false}, {"[ab]", "[ab]", true}, {`\*`, `\x`, true}, {"a.c", "abc", false},
	} {
		if got := Match(c.pattern, c.name); got != c.want {
			t.Errorf("Match(%q, %q) is %v", c.pattern, c.name, got)
		}
	}
}

func TestBadNamesAreRefusedWithAReason(t *testing.T) {
	for name, reason := range map[string]string{
		"":                             "empty",
		"~x":                           "'~'",
		"a\nb":                         "control",
		"a\x00":                        "control",
		"\xff":                         "UTF-8",
		strings.Repeat("x", MaxName+1): "513 bytes",
	} {
		var refused *NameError
		if err := CheckName(name); !errors.As(err, &refused) || !strings.Contains(err.Error(), reason) {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, name := range []string{"x", "a~", "nightly report", "日本/é", "a:b{c}", strings.Repeat("x", MaxName)} {
		if err := CheckName(name); err != nil {
			t.Error(err)
		}
	}
}

func FuzzCheckName(f *testing.F) {
	for _, name := range []string{"", "report", "~f", "a\x00", "\xff", "日本"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		err := CheckName(name)
		if err == nil && (name == "" || name[0] == '~' || len(name) > MaxName || strings.ContainsFunc(name, unicode.IsControl)) {
			t.Errorf("%q is taken", name)
		}
		if err != nil && (strings.ContainsAny(err.Error(), "\n\r") || len(err.Error()) > 400) {
			t.Errorf("the refusal is not one short line: %q", err)
		}
	})
}
