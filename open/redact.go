package open

import (
	"strings"
	"unicode"
)

// Redact returns the URL without its password, for display and for handing on:
// it names the same store. It does not need a URL that Store accepts; from one
// that it can't understand it rather removes too much.
func Redact(url string) string {
	url = strings.Map(printable, strings.ToValidUTF8(url, "?"))
	if strings.HasPrefix(url, "sqlite:///") {
		return url // a path, in which @ has no meaning
	}
	at := strings.LastIndexByte(url, '@')
	if at < 0 {
		return url
	}
	scheme, info, found := strings.Cut(url[:at], "://")
	if !found {
		return url[at+1:]
	}
	return scheme + "://" + userName(info) + url[at+1:]
}

// userName returns the user of the part before the @, with the @, or nothing
// where it can't be told from a password.
func userName(info string) string {
	name, _, _ := strings.Cut(info, ":")
	for _, r := range name {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("%._-", r) {
			return ""
		}
	}
	if name == "" {
		return ""
	}
	return name + "@"
}

func printable(r rune) rune {
	if unicode.IsPrint(r) {
		return r
	}
	return -1
}
