package doctor

import (
	"slices"
	"strings"
)

// words are a command to send.
func (s *server) words(text string) []string {
	words := strings.Fields(text)
	for i, word := range words {
		if word == "KEY" || word == "CHANNEL" {
			words[i] = s.key
		}
	}
	return words
}

// missing says what to add to the user, by what the server said.
func (s *server) missing(command string, err error) string {
	text := err.Error()
	switch {
	case strings.Contains(text, "run the"):
		return "+" + command
	case strings.Contains(text, "channel"):
		return "&" + pattern(s.options.Prefix)
	default:
		return "~" + pattern(s.options.Prefix)
	}
}

// allow is the line that adds rights to the user.
func (s *server) allow(grants ...string) string {
	return "ACL SETUSER " + s.user() + " " + strings.Join(grants, " ")
}

func (s *server) user() string {
	if name := s.options.Client.Username; name != "" {
		return name
	}
	return "default"
}

// pattern is the one that keys with a prefix match.
func pattern(prefix string) string {
	return strings.NewReplacer(`\`, `\\`, `[`, `\[`, `]`, `\]`, `*`, `\*`, `?`, `\?`).Replace(prefix) + "*"
}

func isNoPerm(err error) bool { return said(err) && strings.HasPrefix(err.Error(), "NOPERM") }

// isMoved says that another server of the cluster has the key. The ACL was asked
// before that.
func isMoved(err error) bool { return said(err) && strings.HasPrefix(err.Error(), "MOVED") }

func isUnknown(err error) bool { return said(err) && strings.Contains(err.Error(), "unknown command") }

func appendOnce(list []string, text string) []string {
	if slices.Contains(list, text) {
		return list
	}
	return append(list, text)
}
