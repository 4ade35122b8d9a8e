package driver

import (
	"crypto/rand"
	"encoding/hex"
	"strings"
)

// tokenRandom is the number of random bytes in a token: 128 bits.
const tokenRandom = 16

// NewToken returns a token that was never used before: 128 random bits in
// hexadecimal, '@', and the owner.
func NewToken(owner string) string {
	var b [tokenRandom]byte
	rand.Read(b[:]) // never fails: it aborts the program instead
	return hex.EncodeToString(b[:]) + "@" + owner
}

// ownToken says whether the token has the form that NewToken gives it.
func ownToken(token string) bool {
	random, _, found := strings.Cut(token, "@")
	if !found || len(random) != hex.EncodedLen(tokenRandom) {
		return false
	}
	return strings.Trim(random, "0123456789abcdef") == ""
}

func tokenOwner(token string) string {
	if _, owner, found := strings.Cut(token, "@"); found && owner != "" {
		return owner
	}
	const short = 8
	if len(token) > short {
		return strings.ToValidUTF8(token[:short], "") + "…"
	}
	return token
}
