package driver

import "strings"

// Match says whether the whole name matches a pattern of Lister, in which * is
// any text and ? any one character.
func Match(pattern, name string) bool {
	p, n := []rune(pattern), []rune(name)
	at, from := 0, 0        // where we are in p and n
	star, starFrom := -1, 0 // the last * seen, and the text it starts to eat
	for from < len(n) {
		switch {
		case at < len(p) && p[at] == '*':
			star, starFrom = at, from
			at++
		case at < len(p) && (p[at] == '?' || p[at] == n[from]):
			at++
			from++
		case star >= 0: // let the last * eat one character more
			starFrom++
			at, from = star+1, starFrom
		default:
			return false
		}
	}
	return strings.Trim(string(p[at:]), "*") == ""
}
