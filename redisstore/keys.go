package redisstore

import (
	"strconv"
	"strings"

	"github.com/holdfastlock/holdfast/driver"
	"github.com/holdfastlock/holdfast/internal/redisslot"
)

// ownMark begins, after the prefix, every key and channel that is not a lock.
// No name begins with it.
const ownMark = "~"

// inboxMark begins, after the prefix, the channel of an inbox.
const inboxMark = ownMark + "i:"

// keys are what belongs to one name, all in the hash slot of the lock. Each is
// made when it is asked for: an operation needs few of them.
type keys struct {
	prefix string
	lock   string
	tag    string // the lock's hash tag; empty if it has none
}

// keysOf returns the keys of a name, or a *driver.NameError.
func keysOf(prefix, name string) (keys, error) {
	if err := driver.CheckName(name); err != nil {
		return keys{}, err
	}
	k := keys{prefix: prefix, lock: prefix + name}
	if !strings.ContainsAny(k.lock, "{}") {
		return k, nil
	}
	if tag, found := redisslot.Tag(k.lock); found {
		k.tag = tag
	}
	if redisslot.Hashed(k.companion()) != redisslot.Hashed(k.lock) { // and so with the others
		return keys{}, &driver.NameError{
			Name: name,
			Reason: "can't be kept in one slot of Redis because of its braces; " +
				"leave out '}', or put a text between '{' and '}'",
		}
	}
	return k, nil
}

// own returns a key of ours that stands beside the lock. The parts are what kind
// it is, and what is put behind the lock.
func (k keys) own(kind, behind string) string {
	if k.tag == "" {
		return k.prefix + ownMark + kind + ":{" + k.lock + "}" + behind
	}
	return k.prefix + ownMark + kind + ":{" + k.tag + "}" + k.lock + behind
}

func (k keys) companion() string { return k.own("f", "") }
func (k keys) queue() string     { return k.own("q", "") }

// runs is the index of a job's slots.
func (k keys) runs() string { return k.own("r", "") }

// slot is the record of a slot.
func (k keys) slot(slot string) string {
	if k.tag == "" {
		return k.own("s", ":"+slot)
	}
	// The length keeps job "{t}a" with slot "b:c" apart from "{t}a:b" with "c".
	return k.prefix + ownMark + "s:{" + k.tag + "}" + strconv.Itoa(len(k.lock)) + ":" + k.lock + ":" + slot
}
