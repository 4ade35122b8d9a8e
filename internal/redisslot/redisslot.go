// Package redisslot knows the slot of a key in Redis Cluster, and which part of
// the key is hashed into it.
package redisslot

import (
	"strings"

	"github.com/redis/rueidis"
)

// Tag returns the hash tag of a key: what stands between the first '{' and the
// next '}', unless empty.
func Tag(key string) (tag string, found bool) {
	_, rest, open := strings.Cut(key, "{")
	tag, _, closed := strings.Cut(rest, "}")
	return tag, open && closed && tag != ""
}

// Hashed returns the text from which the slot of a key is computed. Keys with
// the same text are in the same slot.
func Hashed(key string) string {
	if tag, found := Tag(key); found {
		return tag
	}
	return key
}

// Of returns the slot of a key.
func Of(key string) uint16 {
	// The client computes it for its commands, and exports it on them alone.
	of := rueidis.Completed{}.SetSlot(key)
	return of.Slot()
}
