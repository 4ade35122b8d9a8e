package redisstore

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/holdfastlock/holdfast/driver"
)

// How other libraries write their locks, read in their sources: redislock v0.9.4
// and v0.10.0, redsync v4.18.1, rueidislock v1.0.79, Redisson 4.7.0, ShedLock
// 7.9.0, redis-py 5.1, Spring Integration 7.2, node-redlock 5.0, RedLock.net 2.3.2,
// Laravel 13.

// Kinds of locks.
const (
	kindLock      = "lock"
	kindRead      = "read lock"
	kindWrite     = "write lock"
	kindSemaphore = "semaphore"
)

// specimen is what is looked at of a key to tell whether it is a lock: one of
// value, fields and member, by the type of the key.
type specimen struct {
	key    string
	value  string   // the beginning of a string
	fields []string // some of a hash, without their values
	member string   // one of a sorted set

	// named is why the key is taken for a lock whatever its content; else empty.
	named string
	// chosen says that the pattern begins with a text, so that the user means such
	// keys: a content that is often a token's is then one.
	chosen bool
}

// guess is what a specimen looks like.
type guess struct {
	library, kind, basis, holder string
	// expires says that the library's locks always have an expiry: what has none
	// is not one of them.
	expires bool
}

// form is how one library writes the value of a string.
type form struct {
	library, basis string
	// sharp says that hardly anything else has this form. The others are taken
	// for a lock only by the key.
	sharp   bool
	expires bool
	// holder returns what can be shown of the holder, or empty for the beginning
	// of the value, and says whether the form is this one.
	holder func(key, value string) (string, bool)
}

const aUUID = `[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}`

var (
	uuid       = regexp.MustCompile(`^` + aUUID + `$`)
	hex32      = regexp.MustCompile(`^[0-9a-f]{32}$`)
	letters16  = regexp.MustCompile(`^[0-9A-Za-z]{16}$`)
	upperLower = regexp.MustCompile(`[A-Z].*[a-z]|[a-z].*[A-Z]`)
	shedLock   = regexp.MustCompile(`^ADDED:[^@]+@(.+?)(?::` + aUUID + `)?$`)
	numbered   = regexp.MustCompile(`:[0-9]+:`)
	laravel    = regexp.MustCompile(`framework[/\\]schedule-|laravel_unique_job:|laravel-queue-overlap:`)

	redissonHolder = regexp.MustCompile(`^(` + aUUID + `):([0-9]+)(:write)?$`)

	lockWord = regexp.MustCompile(`(?:^|[^A-Za-z])(?i:(?:d|my|job|dist|red|redis|rueidis|shed)?locks?|mutex(?:es)?|leases?)(?:[^A-Za-z]|$)` +
		`|[a-z0-9](?:Lock|Mutex|Lease)(?:[^a-z]|$)`)
)

// namedLikeALock finds a word for a lock in a key: in lock:x, x_lock, jobLock
// and my-mutex, not in clock or block. Most keys have nothing like it, which is
// found out at less cost.
func namedLikeALock(key string) bool {
	lower := strings.ToLower(key)
	for _, word := range []string{"lock", "mutex", "lease"} {
		if strings.Contains(lower, word) {
			return lockWord.MatchString(key)
		}
	}
	return false
}

// companionOfRedisson says whether a string stands beside a lock of Redisson's, and is none
// itself.
func companionOfRedisson(key string) bool {
	return strings.Contains(key, "redisson_lock_token:") || strings.Contains(key, "redisson_unlock_latch:") ||
		strings.Contains(key, ":rwlock_timeout:")
}

// forms in the order in which they are tried.
var forms = []form{
	{library: "holdfast", basis: "a token of holdfast's", sharp: true, holder: func(_, value string) (string, bool) {
		h := driver.Holder{Token: value}
		return h.Owner(), !h.Foreign()
	}},
	{library: "ShedLock", basis: "the value is ADDED:time@host", sharp: true, holder: func(_, value string) (string, bool) {
		parts := shedLock.FindStringSubmatch(value)
		if parts == nil {
			return "", false
		}
		return parts[1], true
	}},
	{library: "redsync", basis: "a token of 16 bytes in base64, padded", sharp: true, expires: true, holder: func(_, value string) (string, bool) {
		return "", is16Bytes(base64.StdEncoding, value)
	}},
	{library: "redislock", basis: "a token of 16 bytes in base64", sharp: true, expires: true, holder: func(_, value string) (string, bool) {
		return "", is16Bytes(base64.RawURLEncoding, value)
	}},
	{library: "rueidislock", basis: "a token of 24 bytes, and a number in the key", sharp: true, expires: true, holder: func(key, value string) (string, bool) {
		return "", len(value) == 24 && !utf8.ValidString(value) && numbered.MatchString(key)
	}},
	{library: "redis-py", basis: "a token that is a UUID with the time it was made", sharp: true, holder: func(_, value string) (string, bool) {
		return "", hex32.MatchString(value) && madeLately(value)
	}},
	{library: "RedLock.net", basis: "a UUID as token, and redlock: in the key", sharp: true, expires: true, holder: func(key, value string) (string, bool) {
		return "", strings.HasPrefix(key, "redlock:") && uuid.MatchString(value)
	}},
	{library: "Laravel", basis: "a key of its scheduler or queue", sharp: true, holder: func(key, value string) (string, bool) {
		return "", letters16.MatchString(value) && laravel.MatchString(key)
	}},
	{library: "Spring Integration", basis: "a UUID as token; others have that too", holder: func(_, value string) (string, bool) {
		return "", uuid.MatchString(value)
	}},
	{library: "node-redlock", basis: "a token of 16 bytes in hex; others have that too", holder: func(_, value string) (string, bool) {
		return "", hex32.MatchString(value)
	}},
	{library: "Laravel", basis: "a token of 16 letters", holder: func(_, value string) (string, bool) {
		return "", letters16.MatchString(value) && upperLower.MatchString(value)
	}},
	{library: "redislock", basis: "a token of 16 bytes in base64, and a text", expires: true, holder: func(_, value string) (string, bool) {
		const token = 22
		return value[min(token, len(value)):], len(value) > token && is16Bytes(base64.RawURLEncoding, value[:token])
	}},
}

// is16Bytes says whether the value is 16 random bytes in an encoding, and no
// word that happens to be as long.
func is16Bytes(encoding *base64.Encoding, value string) bool {
	if len(value) != encoding.EncodedLen(16) {
		return false
	}
	_, err := encoding.Strict().DecodeString(value)
	return err == nil && upperLower.MatchString(value)
}

// madeLately says whether a hex text is a UUID of version 1 that was made within
// a year, by the clock of who made it and ours: of random numbers, four in a
// million look so.
func madeLately(value string) bool {
	raw, err := hex.DecodeString(value)
	if err != nil || raw[6]>>4 != 1 || raw[8]>>6 != 2 {
		return false
	}
	made := int64(raw[6]&0xf)<<56 | int64(raw[7])<<48 | int64(raw[4])<<40 | int64(raw[5])<<32 |
		int64(raw[0])<<24 | int64(raw[1])<<16 | int64(raw[2])<<8 | int64(raw[3])
	const (
		tick  = 100 * time.Nanosecond
		begin = 122192928000000000 // 1970 in ticks since 1582
		day   = int64(24 * time.Hour / tick)
	)
	age := time.Now().UnixNano()/int64(tick) + begin - made
	return -day < age && age < 365*day
}

// recognise says whether a key looks like a lock, and which.
func recognise(x specimen) (guess, bool) {
	switch {
	case companionOfRedisson(x.key):
		return guess{}, false
	case x.fields != nil:
		return redissonLock(x.fields)
	case x.member != "":
		return redissonSemaphore(x)
	default:
		return stringLock(x)
	}
}

func stringLock(x specimen) (guess, bool) {
	for _, f := range forms {
		holder, is := f.holder(x.key, x.value)
		if !is || !f.sharp && x.named == "" && !x.chosen {
			continue
		}
		if holder == "" {
			holder = beginning(x.value)
		}
		return guess{f.library, kindLock, f.basis, holder, f.expires && x.named == ""}, true
	}
	g := guess{kind: kindLock, basis: x.named, holder: driver.Holder{Token: x.value}.Owner()}
	return g, x.named != "" && len(x.value) < valueLooked
}

// beginning shows a token without giving it away.
func beginning(token string) string {
	const shown = 8
	if !utf8.ValidString(token) {
		token = hex.EncodeToString([]byte(token))
	}
	return token[:min(shown, len(token))] + "…"
}

// redissonLock knows the hash of an RLock, which is also that of a RedLock and
// of a fair, spin or fenced one: a field for the thread that holds it. A
// read-write lock has one more, and may have many holders.
func redissonLock(fields []string) (guess, bool) {
	g := guess{library: "Redisson", kind: kindLock, basis: "a hash of client:thread"}
	for _, field := range fields {
		parts := redissonHolder.FindStringSubmatch(field)
		switch {
		case field == "mode":
			g.basis = "a hash of mode and client:thread"
		case parts == nil:
			return guess{}, false
		default:
			g.holder = fmt.Sprintf("client %s thread %s", beginning(parts[1]), parts[2])
		}
		if parts != nil && parts[3] != "" {
			g.kind = kindWrite
		}
	}
	if g.kind == kindLock && len(fields) > 1 {
		g.kind = kindRead
	}
	return g, g.holder != ""
}

// permits ends the key of the sorted set of a semaphore's permits.
const permits = ":timeout"

// redissonSemaphore knows an RPermitExpirableSemaphore by the sorted set of its
// permits, by the time they end. A plain RSemaphore is a number as any other.
func redissonSemaphore(x specimen) (guess, bool) {
	g := guess{library: "Redisson", kind: kindSemaphore, basis: "a sorted set of permits, ids of 16 bytes"}
	return g, strings.HasSuffix(x.key, permits) && (len(x.member) == 16 && !utf8.ValidString(x.member) || hex32.MatchString(x.member))
}
