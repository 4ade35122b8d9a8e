package open

import (
	"net/url"
	"slices"
	"strings"
	"unicode"
)

// Redact returns the URL without its passwords, for display and for handing on:
// it names the same store. It does not need a URL that Store accepts; from one
// that it can't understand it rather removes too much.
func Redact(url string) string {
	url = onOneLine(url)
	if strings.HasPrefix(url, "sqlite:///") {
		return url // a path, in which @ has no meaning
	}
	scheme, rest, found := strings.Cut(url, "://")
	if !found {
		return withoutSecrets(url[strings.LastIndexByte(url, '@')+1:])
	}
	return scheme + "://" + withoutSecrets(withoutPasswords(scheme, rest))
}

// withoutPasswords takes them from before the hosts.
func withoutPasswords(scheme, rest string) string {
	end, at := hostEnd(rest), strings.LastIndexByte(rest, '@')
	hosts := strings.Split(rest[:end], ",")
	switch {
	case at < 0:
		return rest
	case at > end && strings.Contains(rest[end:at], "="):
		return "" // it may be in a parameter
	case at > end || !strings.HasPrefix(scheme, "quorum+") || slices.ContainsFunc(hosts, hasNotOneAt):
		return userName(rest[:at]) + rest[at+1:]
	}
	for i, host := range hosts {
		info, name, _ := strings.Cut(host, "@")
		hosts[i] = userName(info) + name
	}
	return strings.Join(hosts, ",") + rest[end:]
}

func hasNotOneAt(host string) bool { return strings.Count(host, "@") != 1 }

// withoutSecrets keeps of what follows the ? the parameters that are known, and
// no password.
func withoutSecrets(rest string) string {
	rest, _, _ = strings.Cut(rest, "#")
	place, query, _ := strings.Cut(rest, "?")
	place, _, _ = strings.Cut(place, "password=") // a parameter whose ? was forgotten
	query = strings.Join(slices.DeleteFunc(strings.Split(query, "&"), isSecret), "&")
	if query == "" {
		return place
	}
	return place + "?" + query
}

func isSecret(parameter string) bool {
	parameter, _ = url.QueryUnescape(parameter)
	name, _, _ := strings.Cut(parameter, "=")
	known := slices.Contains(redisParameters, name) || slices.Contains(postgresParameters, name)
	return !known || strings.Contains(parameter, "password=")
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

// onOneLine leaves out what can't be shown.
func onOneLine(text string) string {
	return strings.Map(printable, strings.ToValidUTF8(text, "?"))
}

func printable(r rune) rune {
	if unicode.IsPrint(r) {
		return r
	}
	return -1
}
