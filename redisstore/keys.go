package redisstore

import (
	"strconv"
	"strings"

	"github.com/holdfastlock/holdfast/driver"
)

// ownMark begins, after the prefix, every key and channel that is not a lock.
// No name begins with it.
const ownMark = "~"

// keys are what belongs to one name, all in the hash slot of the lock.
type keys struct {
	lock      string
	companion string
	channel   string
	tombstone string // of a token, when the token is put behind it
	runs      string // the index of a job's slots
	slot      string // the record of a slot, when the slot is put behind it
}

// keysOf returns the keys of a name, or a *driver.NameError.
func keysOf(prefix, name string) (keys, error) {
	if err := driver.CheckName(name); err != nil {
		return keys{}, err
	}
	lock := prefix + name
	tagged := "{" + lock + "}"
	slots := tagged
	if tag, found := hashTag(lock); found {
		tagged = "{" + tag + "}" + lock
		// The length keeps job "{t}a" with slot "b:c" apart from "{t}a:b" with "c".
		slots = "{" + tag + "}" + strconv.Itoa(len(lock)) + ":" + lock
	}
	k := keys{
		lock:      lock,
		companion: prefix + ownMark + "f:" + tagged,
		channel:   prefix + ownMark + "c:" + tagged,
		tombstone: prefix + ownMark + "x:" + tagged + ":",
		runs:      prefix + ownMark + "r:" + tagged,
		slot:      prefix + ownMark + "s:" + slots + ":",
	}
	for _, own := range []string{k.companion, k.channel, k.tombstone, k.runs, k.slot} {
		if hashed(own) != hashed(lock) {
			return keys{}, &driver.NameError{
				Name: name,
				Reason: "can't be kept in one slot of Redis because of its braces; " +
					"leave out '}', or put a text between '{' and '}'",
			}
		}
	}
	return k, nil
}

// hashTag returns the part of a key that Redis Cluster hashes in place of the
// whole: what stands between the first '{' and the next '}', unless empty.
func hashTag(key string) (tag string, found bool) {
	_, rest, open := strings.Cut(key, "{")
	tag, _, closed := strings.Cut(rest, "}")
	return tag, open && closed && tag != ""
}

// hashed returns the text from which Redis Cluster computes the key's slot.
func hashed(key string) string {
	if tag, found := hashTag(key); found {
		return tag
	}
	return key
}
